import pytest

from draft_service.drafters.ngram import NgramDrafter
from draft_service.methods import Methods, make_methods
from draft_service.settings import DraftSettings
from outrider.protocol.errors import InvalidField
from outrider.settings import BadSettings, load_settings
from outrider.telemetry.metrics import DraftMetrics


def settings(*flags: str) -> DraftSettings:
    return load_settings(DraftSettings, flags, {})


def test_without_a_head_there_are_ngram_and_none():
    methods = make_methods(settings(), DraftMetrics())
    assert list(methods.drafters) == ["ngram", "none"]
    assert methods.default == methods.chosen("") == "ngram"
    assert methods.layout is None
    assert make_methods(settings("--default-method", "none"), DraftMetrics()).default == "none"


def test_a_request_for_a_method_that_is_not_there_is_refused_by_its_field():
    methods = Methods({"ngram": NgramDrafter()}, "ngram")
    with pytest.raises(InvalidField, match="must be one of ngram, got hybrid") as refusal:
        methods.chosen("hybrid")
    assert refusal.value.field == "speculation.method"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--default-method", "hybrid"), "hybrid needs a head; set --head"),
        (
            ("--default-method", "medusa"),
            "must be one of model, hybrid, eagle3, eagle1",
        ),
        (("--default-method", "model"), "model needs a draft model; set --draft-model"),
        (("--static-tree", "0 1"), "static_tree needs a head or a draft model"),
        (("--static-tree", "0.0", "--head", "somewhere"), "0.0 needs 0"),
        (("--head-dtype", "int8"), "--head-dtype"),
        (("--threads", "-1"), "--threads"),
    ],
)
def test_bad_settings_are_refused_in_words(flags, problem):
    with pytest.raises(BadSettings, match=problem):
        settings(*flags)
