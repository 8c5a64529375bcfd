"""Which draft worker a stream goes to."""

from gateway.served_model import ServedModel
from gateway.worker_table import Placement, Wish, WorkerTable, changes
from outrider.protocol.errors import Mismatch, WorkerUnavailable

A, B = "a:1", "b:1"


def model(*methods: str, target: str = "t", name: str = "tiny") -> ServedModel:
    return ServedModel(name, 512, 300, (2,), methods, methods[0], 32, 8, "", target)


def table(**models: ServedModel) -> WorkerTable:
    workers = WorkerTable()
    for name, served in models.items():
        workers.join(f"{name}:1")
        workers.answered(f"{name}:1", served)
    return workers


def wish(method: str = "", target: str = "t", key: bytes = b"k") -> Wish:
    return Wish(key, method, target)


def test_nothing_is_known_at_first() -> None:
    workers = WorkerTable()
    assert workers.model is None
    assert workers.choose(wish(), 0.0) is None
    assert isinstance(workers.problem, WorkerUnavailable)
    workers.join(A)
    assert A in workers
    assert workers.choose(wish(), 0.0) is None


def test_the_first_problem_is_told_until_one_answers() -> None:
    workers = WorkerTable()
    workers.join(A)
    workers.join(B)
    workers.silent(A, Mismatch("another model"))
    assert workers.problem is not None
    assert workers.problem.message == "another model"
    workers.answered(B, model("none"))
    assert workers.usable_count() == 1
    assert workers.choose(wish(), 0.0) == Placement(B, "")


def test_a_worker_at_which_a_stream_failed_rests_for_a_while() -> None:
    workers = table(a=model("none"), b=model("none"))
    workers.failed(A, 10.0)
    assert (workers.resting_count(10.1), workers.resting_count(10.3)) == (1, 0)
    workers.failed(A, 10.3)
    workers.silent(A, WorkerUnavailable("gone"))
    assert workers.resting_count(10.4) == 0, "one that does not answer is lost, it does not rest"


def test_nothing_is_wrong_where_one_answers() -> None:
    assert table(a=model("none")).problem is None


def test_load_is_shared() -> None:
    workers = table(a=model("none"), b=model("none"))
    for _ in range(20):
        placement = workers.choose(wish(), 0.0)
        assert placement is not None
        workers.began(placement.address)
    workers.ended(A)
    workers.ended(A)
    for _ in range(30):  # ends never bring the count below zero
        workers.ended(B)
    assert workers.choose(wish(), 0.0) == Placement(B, "")


def test_one_that_can_run_the_method_goes_first_and_plain_decoding_is_always_possible() -> None:
    workers = table(a=model("ngram", "none"), b=model("eagle3", "none"))
    for number in range(20):
        key = bytes([number])
        assert workers.choose(wish("eagle3", key=key), 0.0) == Placement(B, "eagle3")
    workers.silent(B, WorkerUnavailable("gone"))
    assert workers.choose(wish("eagle3"), 0.0) == Placement(A, "none")
    assert workers.choose(wish(""), 0.0) == Placement(A, "")


def test_methods_of_all_may_be_asked_for_and_the_first_worker_says_the_rest() -> None:
    workers = table(a=model("ngram", "none"), b=model("eagle3", "none", name="other"))
    assert workers.model is not None
    assert workers.model.methods == ("ngram", "none", "eagle3")
    assert (workers.model.name, workers.model.default_method) == ("tiny", "ngram")


def test_a_stream_never_goes_on_with_another_target() -> None:
    workers = table(a=model("none"), b=model("eagle3", target="u"))
    assert workers.model is not None
    assert workers.model.methods == ("none",)
    assert workers.choose(wish(target="u"), 0.0) == Placement(B, "")
    workers.silent(A, WorkerUnavailable("gone"))
    assert workers.choose(wish(target="t"), 0.0) is None


def test_one_at_which_streams_fail_rests_for_longer_each_time() -> None:
    workers = table(a=model("none"), b=model("none"))
    keys = [bytes([number]) for number in range(40)]

    def chosen(now: float) -> set[str]:
        found = [workers.choose(wish(key=key), now) for key in keys]
        return {one.address for one in found if one is not None}

    assert chosen(0.0) == {A, B}
    workers.failed(A, 0.0)
    assert (chosen(0.2), chosen(0.3)) == ({B}, {A, B})
    workers.failed(A, 1.0)
    assert (chosen(1.4), chosen(1.6)) == ({B}, {A, B})
    workers.worked(A)
    workers.failed(A, 2.0)
    assert (chosen(2.2), chosen(2.3)) == ({B}, {A, B})
    for _ in range(9):
        workers.failed(A, 3.0)
    assert (chosen(7.9), chosen(8.1)) == ({B}, {A, B})


def test_where_all_rest_they_are_taken_all_the_same() -> None:
    workers = table(a=model("none"))
    workers.failed(A, 0.0)
    assert workers.choose(wish(), 0.0) == Placement(A, "")


def test_one_that_left_is_forgotten_and_late_news_of_it_is_ignored() -> None:
    workers = table(a=model("none"))
    workers.leave(A)
    for late in (
        lambda: workers.answered(A, model("none")),
        lambda: workers.silent(A, WorkerUnavailable("")),
        lambda: workers.began(A),
        lambda: workers.ended(A),
        lambda: workers.worked(A),
        lambda: workers.failed(A, 0.0),
    ):
        late()
    assert A not in workers
    assert workers.model is None


def test_who_joined_and_who_left() -> None:
    assert changes([A, B], [B, "c:1", "c:1"]) == (["c:1"], [A])
    assert changes([], []) == ([], [])
