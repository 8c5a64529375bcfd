"""The draft methods of one worker, by what it was given: a head, a draft model, both or none."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from prometheus_client import Counter

from draft_service.canary import Canary
from draft_service.drafters.drafter import Drafter
from draft_service.drafters.head import HeadDrafter
from draft_service.drafters.model import ModelDrafter
from draft_service.drafters.network_passes import OnDrop
from draft_service.drafters.network_trees import NetworkOptions
from draft_service.drafters.network_watch import DropReason
from draft_service.drafters.ngram import NgramDrafter
from draft_service.drafters.none import NoDrafter
from draft_service.row_extents import RowExtents
from draft_service.settings import DraftSettings
from draft_service.tree_shape import DynamicShape, StaticShape, TreeShape
from draft_service.vocabulary import BuiltFor
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
        built_for: The target that the draft model fits.
    """

    drafters: Mapping[str, Drafter]
    default: str
    layout: FeatureLayout | None = None
    canary: Canary = field(default_factory=Canary)
    built_for: BuiltFor = field(default_factory=BuiltFor)

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
    """Builds the drafters, and loads the head and the draft model where they are given.

    Raises:
        BadSettings: One of them cannot be used, or the default method is not there.
    """
    methods = Methods({"ngram": NgramDrafter(), "none": NoDrafter()}, "ngram")
    if settings.head:
        methods = _with_head(methods, settings, metrics)
    if settings.draft_model:
        methods = _with_model(methods, settings, metrics)
    default = settings.default_method or methods.default
    if default not in methods.drafters:
        listed = ", ".join(methods.drafters)
        raise BadSettings(f"--default-method {default}: this worker has {listed}")
    return replace(methods, default=default)


def _with_head(methods: Methods, settings: DraftSettings, metrics: DraftMetrics) -> Methods:
    # Here and not above: without a head or a draft model the worker runs without torch.
    from draft_service.tensors.canary_prompts import canary_prompts  # noqa: PLC0415
    from draft_service.tensors.head_loading import load_drafting_head  # noqa: PLC0415

    head = load_drafting_head(settings)
    extents = RowExtents(head.network.slot_count)
    on_drop = _on_drop("head", metrics.dropped_heads)

    def drafter(shape: TreeShape, has_text: bool) -> HeadDrafter:
        options = _network_options(settings, shape, has_text)
        return HeadDrafter(head.network, extents, options, on_drop, time.monotonic)

    drafters: dict[str, Drafter] = {
        "hybrid": drafter(DynamicShape(), has_text=True),
        head.method: drafter(_shape_alone(settings), has_text=False),
        **methods.drafters,
    }
    canary = Canary(head.method, canary_prompts(head.target)) if settings.canary else Canary()
    return replace(methods, drafters=drafters, default="hybrid", layout=head.layout, canary=canary)


def _with_model(methods: Methods, settings: DraftSettings, metrics: DraftMetrics) -> Methods:
    from draft_service.tensors.model_loading import load_draft_model  # noqa: PLC0415  as above

    model = load_draft_model(settings)
    drafter = ModelDrafter(
        model.network,
        RowExtents(model.network.slot_count),
        _network_options(settings, _shape_alone(settings)),
        _on_drop("draft model", metrics.dropped_draft_models),
        time.monotonic,
    )
    drafters = {"model": drafter, **methods.drafters}
    return replace(methods, drafters=drafters, default="model", built_for=model.built_for)


def _network_options(
    settings: DraftSettings, shape: TreeShape, has_text: bool = False
) -> NetworkOptions:
    # Fixed trees are wanted whatever they cost.
    may_rest = isinstance(shape, DynamicShape)
    return NetworkOptions(shape, has_text, settings.coupled_sampling, may_rest)


def _shape_alone(settings: DraftSettings) -> TreeShape:
    """Trees of the methods that ask nothing but their network."""
    return StaticShape.parsed(settings.static_tree) if settings.static_tree else DynamicShape()


def _on_drop(what: str, dropped: Counter) -> OnDrop:
    """Counts and logs sessions that lose their network."""

    def tell(session_id: bytes, reason: DropReason, text: str) -> None:
        dropped.labels(reason.value).inc()
        logger.log(
            logging.DEBUG if reason is DropReason.RESTING else logging.WARNING,
            "session %s goes on without its %s: %s, %s",
            short_id(session_id),
            what,
            reason,
            text,
        )

    return tell
