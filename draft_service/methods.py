"""The draft methods of one worker, by what it was given: with a head or without."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from draft_service.canary import Canary
from draft_service.drafters.drafter import Drafter
from draft_service.drafters.head import HeadDrafter
from draft_service.drafters.network_trees import NetworkOptions
from draft_service.drafters.network_watch import DropReason
from draft_service.drafters.ngram import NgramDrafter
from draft_service.drafters.none import NoDrafter
from draft_service.row_extents import RowExtents
from draft_service.settings import DraftSettings
from draft_service.tree_shape import DynamicShape, StaticShape, TreeShape
from outrider.protocol.errors import InvalidField
from outrider.protocol.features import FeatureLayout
from outrider.protocol.messages import short_id
from outrider.settings import BadSettings
from outrider.telemetry.metrics import DraftMetrics

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Methods:
    """What requests may choose from.

    Args:
        drafters: By the name of their method.
        default: Used where a request names none.
        layout: Features that they read; None where none do.
        canary: Measures the head before it serves.
    """

    drafters: Mapping[str, Drafter]
    default: str
    layout: FeatureLayout | None = None
    canary: Canary = field(default_factory=Canary)

    def chosen(self, name: str) -> str:
        """The method that a request gets.

        Raises:
            InvalidField: There is none of that name.
        """
        method = name or self.default
        if method not in self.drafters:
            listed = ", ".join(self.drafters)
            raise InvalidField("speculation.method", f"must be one of {listed}, got {method}")
        return method


def make_methods(settings: DraftSettings, metrics: DraftMetrics) -> Methods:
    """Builds the drafters, and loads the head where one is given.

    Raises:
        BadSettings: The head cannot be used, or the default method is not there.
    """
    drafters: dict[str, Drafter] = {"ngram": NgramDrafter(), "none": NoDrafter()}
    if not settings.head:
        return _checked(Methods(drafters, settings.default_method or "ngram"))
    # Here and not above: without a head the worker runs without torch.
    from draft_service.tensors.canary_prompts import canary_prompts  # noqa: PLC0415
    from draft_service.tensors.head_loading import load_drafting_head  # noqa: PLC0415

    head = load_drafting_head(settings)
    extents = RowExtents(head.network.slot_count)

    def on_drop(session_id: bytes, reason: DropReason, text: str) -> None:
        metrics.dropped_heads.labels(reason.value).inc()
        logger.warning(
            "session %s goes on without its head: %s, %s", short_id(session_id), reason, text
        )

    def drafter(shape: TreeShape, has_text: bool) -> HeadDrafter:
        options = NetworkOptions(shape, has_text, settings.coupled_sampling)
        return HeadDrafter(head.network, extents, options, on_drop, time.monotonic)

    alone = StaticShape.parsed(settings.static_tree) if settings.static_tree else DynamicShape()
    drafters = {
        "hybrid": drafter(DynamicShape(), has_text=True),
        head.method: drafter(alone, has_text=False),
        **drafters,
    }
    canary = Canary(head.method, canary_prompts(head.target)) if settings.canary else Canary()
    return _checked(Methods(drafters, settings.default_method or "hybrid", head.layout, canary))


def _checked(methods: Methods) -> Methods:
    if methods.default not in methods.drafters:
        raise BadSettings(
            f"--default-method {methods.default}: this worker has {', '.join(methods.drafters)}"
        )
    return methods
