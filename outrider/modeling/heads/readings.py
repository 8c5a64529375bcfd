"""Other ways to read one head's file, for the canary to compare.

Formats count layers in two ways and give `norm_output` two meanings; a file that was converted by
hand may carry either. One layer off costs a few points of acceptance and raises no error, so no
floor finds it: only the comparison does.
"""

from dataclasses import replace

from outrider.modeling.heads.head_config import FINAL_NORM, HeadConfig, HeadKind


def other_readings(config: HeadConfig, layer_count: int) -> dict[str, HeadConfig]:
    """What a head would be if its file meant something else.

    Args:
        config: As it was read.
        layer_count: Decoder layers of its target.

    Returns:
        By name in words; the same tensors fit each of them.
    """
    if config.kind is HeadKind.EAGLE1:
        return {"the feature before the final norm": replace(config, feature_layers=(layer_count,))}
    layers = config.feature_layers
    readings = {}
    if layers[0] > 0 and FINAL_NORM not in layers:
        lower = tuple(layer - 1 for layer in layers)
        readings["layers one lower"] = replace(config, feature_layers=lower)
    if layers[-1] < layer_count and FINAL_NORM not in layers:
        higher = tuple(layer + 1 for layer in layers)
        readings["layers one higher"] = replace(config, feature_layers=higher)
    for option in ("norm_output", "norm_before_residual"):
        flipped = not getattr(config, option)
        name = f"{option} {'on' if flipped else 'off'}"
        readings[name] = replace(config, **{option: flipped})  # type: ignore[arg-type]
    return readings
