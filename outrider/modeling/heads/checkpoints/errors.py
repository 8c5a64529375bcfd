"""What can be wrong with the files of a head or of a target, in words that a user can act on."""


class BadCheckpoint(Exception):
    """A checkpoint cannot be used; the message names the tensor or the setting, and what to do."""


class TargetNeeded(BadCheckpoint):
    """The head's file leaves something to its target, and no target was named."""
