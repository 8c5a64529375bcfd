"""What can go wrong with a pull, in words that a user can act on."""


class PullError(Exception):
    """A pull cannot go on; the message says why and what to do."""


class SourceRefused(PullError):
    """The place of the download does not give it to us; pip itself may fare better."""


class WrongBytes(PullError):
    """What arrived is not what was expected: its size or hash differs."""
