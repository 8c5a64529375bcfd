"""Files of draft heads: four published formats in, one normal form out, and back."""

from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.load import LoadedHead, load_head
from outrider.modeling.heads.checkpoints.target_files import TargetFiles

__all__ = ["BadCheckpoint", "LoadedHead", "TargetFiles", "load_head"]
