"""Tells the formats apart by `config.json` and the names and shapes of the tensors.

Names of architectures are believed only where they rule a head out: files copy them from the
target, and an EAGLE-1 head that is taken for an EAGLE-3 head runs and has nothing accepted.
"""

from typing import Final

from outrider.modeling.heads.checkpoints.config_file import ConfigFile
from outrider.modeling.heads.checkpoints.eagle1 import FORMAT as EAGLE1
from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.head_format import HeadFormat
from outrider.modeling.heads.checkpoints.safeailab import FORMAT as SAFEAILAB
from outrider.modeling.heads.checkpoints.specforge import FORMAT as SPECFORGE
from outrider.modeling.heads.checkpoints.speculators import FORMAT as SPECULATORS
from outrider.modeling.heads.checkpoints.tensor_files import Shapes

FORMATS: Final[dict[str, HeadFormat]] = {
    found.name: found for found in (SAFEAILAB, EAGLE1, SPECULATORS, SPECFORGE)
}

_SUPPORTED: Final = "EAGLE-1, EAGLE-2 and EAGLE-3 heads are read"
_OTHER_METHODS: Final = {
    "peagle": "P-EAGLE",
    "dflash": "DFlash",
    "dflare": "DFlare",
    "dspark": "DSpark",
    "mtp": "multi-token prediction",
    "nextn": "multi-token prediction",
    "medusa": "Medusa",
    "hydra": "Hydra",
    "deepseek": "DeepSeek attention",
}
_SPECFORGE_ARCHITECTURE: Final = "LlamaForCausalLMEagle3"


def detect_format(config: ConfigFile, shapes: Shapes) -> HeadFormat:
    """Finds the format of a head.

    Args:
        config: Its `config.json`.
        shapes: Of its tensors, by their names in the file.

    Returns:
        One of the four.

    Raises:
        BadCheckpoint: It is a draft model of another method, or no draft head at all.
    """
    _refuse_other_methods(config, shapes)
    if "speculators_model_type" in config:
        return SPECULATORS
    if any(name.startswith("midlayer.") for name in shapes):
        is_specforge = "eagle_config" in config or _SPECFORGE_ARCHITECTURE in config.words(
            "architectures"
        )
        return SPECFORGE if is_specforge else SAFEAILAB
    if not any(name.startswith("layers.0.") for name in shapes):
        raise BadCheckpoint("the tensors are those of no draft head: neither midlayer nor layers.0")
    rows, width = _fc_shape(shapes)
    if width == 2 * rows:
        return EAGLE1
    raise BadCheckpoint(
        f"fc.weight is [{rows}, {width}], which is no EAGLE-1 head's [{rows}, {2 * rows}]; for an "
        "EAGLE-3 head with these names, config.json lacks speculators_model_type"
    )


def _fc_shape(shapes: Shapes) -> tuple[int, int]:
    shape = shapes.get("fc.weight", ())
    if len(shape) != 2:
        raise BadCheckpoint("fc.weight is missing: every head here has one")
    return shape[0], shape[1]


def _refuse_other_methods(config: ConfigFile, shapes: Shapes) -> None:
    model_type = config.word("speculators_model_type", "eagle3")
    claims = [model_type, *config.words("architectures"), *(set(config) & {"dflash_config"})]
    for word, method in _OTHER_METHODS.items():
        claim = next((claim for claim in claims if word in claim.lower()), None)
        if claim is not None:
            raise BadCheckpoint(f"{claim!r} in config.json means {method}; {_SUPPORTED}")
    if model_type != "eagle3":
        raise BadCheckpoint(f"speculators_model_type is {model_type!r}; {_SUPPORTED}")
    if "mask_hidden" in shapes:
        raise BadCheckpoint(f"the tensor mask_hidden belongs to P-EAGLE; {_SUPPORTED}")
