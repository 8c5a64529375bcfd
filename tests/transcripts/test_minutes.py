"""Conversations of the two workers, as plain text that a reviewer reads like minutes.

Each `.txt` beside this file is what was said. To change one on purpose: delete it, run the test
once (it writes the file and fails), read the difference, commit it.
"""

from pathlib import Path

import pytest

from draft_service.drafters.drafter import Drafter
from draft_service.drafters.ngram import NgramDrafter
from draft_service.drafting import RoundDone
from outrider.protocol import messages as m
from outrider.protocol.decoding import Sampling
from tests.fakes.conversation import Conversation
from tests.fakes.feature_drafter import LAYOUT
from tests.fakes.table_target import markov_logits

FOLDER = Path(__file__).parent


class CuriousDrafter(NgramDrafter):
    """N-grams that want the features of one session too, as a head would."""

    row_count = 0

    def features_from(self, session_id: bytes) -> int:  # type: ignore[override]
        return self.row_count

    def take_features(self, rows: m.FeatureRows) -> None:
        self.row_count = rows.stop_row


class Minutes:
    """A conversation that writes down what is said, heartbeats left out."""

    def __init__(self, drafter: Drafter | None = None) -> None:
        self.lines: list[str] = []
        self.lost: set[str] = set()
        layout = None if drafter is None else LAYOUT
        drafters = None if drafter is None else {"ngram": drafter}
        self.talk = Conversation(markov_logits(8, seed=3), drafters=drafters, layout=layout)
        self.talk.to_verify = lambda message: self._note("draft  -> verify", message)
        self.talk.to_draft = lambda message: self._note("verify -> draft ", message)

    def say(self, text: str) -> None:
        self.lines.append(f"-- {text}")

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.talk.turn()

    def lose_next(self, kind: type) -> None:
        self.lost.add(kind.__name__)

    def _note(self, way: str, message: m.Message) -> int:
        kind = type(message).__name__
        is_lost = kind in self.lost
        self.lost.discard(kind)
        if kind != "Heartbeat":
            self.lines.append(f"{way}  {describe(message)}{'   (lost)' if is_lost else ''}")
        return 0 if is_lost else 1


def describe(message: m.Message) -> str:
    match message:
        case m.Hello():
            layers = " ".join(map(str, message.feature_layers))
            return f"Hello features=[{layers}]" if layers else "Hello"
        case m.HelloAck():
            return f"HelloAck boot={message.boot_id.decode()[:1]}"
        case m.OpenSession():
            ids = " ".join(map(str, message.token_ids))
            wish = (
                "" if message.features_from is None else f" features from {message.features_from}"
            )
            place = f"epoch={message.epoch} tokens=[{ids}] prompt={message.prompt_length}"
            return f"OpenSession {place}{wish}"
        case m.ProposeTree():
            nodes = " ".join(
                f"{token}<{parent}" if parent >= 0 else str(token)
                for token, parent in zip(message.tree.token_ids, message.tree.parents, strict=True)
            )
            return f"ProposeTree epoch={message.epoch} round={message.round} [{nodes}]"
        case m.FeatureRows():
            return f"FeatureRows epoch={message.epoch} [{message.first_row}, {message.stop_row})"
        case m.Verdict():
            end = f" {message.finish_reason.name}" if message.finish_reason else ""
            path = " ".join(map(str, message.accepted_indices))
            place = f"epoch={message.epoch} round={message.round}"
            return f"Verdict {place} accepted=[{path}] bonus={message.bonus_token}{end}"
        case m.Fault():
            return f"Fault {message.code.name}: {message.message}"
        case m.CloseSession():
            return f"CloseSession epoch={message.epoch}"
    return type(message).__name__


def a_stream(minutes: Minutes) -> None:
    minutes.turns(2)
    minutes.say("a stream of eight tokens; its prompt repeats itself")
    one = minutes.talk.open("s", [3, 6, 3, 6, 3], max_new_tokens=8, ignore_eos=True)
    minutes.turns(12)
    minutes.say(f"committed: {minutes.talk.tokens(one)}")


def a_lost_verdict(minutes: Minutes) -> None:
    minutes.turns(2)
    sampling = Sampling(temperature=1.0, seed=5)
    one = minutes.talk.open("s", [1, 2], max_new_tokens=3, sampling=sampling, ignore_eos=True)
    minutes.lose_next(m.Verdict)
    minutes.turns(3)
    minutes.say("ten seconds later the same round is asked for again")
    minutes.talk.verify.peers.hear(b"draft", m.Heartbeat(b"", 0), minutes.talk.now + 10)
    minutes.talk.draft.fleet.links[0].heard(minutes.talk.now + 10)
    minutes.talk.now += 10.1
    minutes.turns(6)
    minutes.say(f"committed: {minutes.talk.tokens(one)}")


def a_restarted_verify_worker(minutes: Minutes) -> None:
    minutes.turns(2)
    sampling = Sampling(temperature=1.0, seed=5)
    one = minutes.talk.open("s", [1, 2], max_new_tokens=5, sampling=sampling, ignore_eos=True)
    minutes.turns(3)
    minutes.say(f"the verify worker dies; committed so far: {minutes.talk.tokens(one)}")
    minutes.talk.restart_verify(b"w" * 16)
    minutes.talk.now += 0.2
    minutes.turns(12)
    minutes.say(f"committed: {minutes.talk.tokens(one)}")


def a_cancelled_stream(minutes: Minutes) -> None:
    minutes.turns(2)
    one = minutes.talk.open("s", [1, 2, 3], max_new_tokens=50, ignore_eos=True)
    minutes.turns(3)
    minutes.say(f"the client goes; {minutes.talk.verify.blocks.in_use} KV blocks in use")
    minutes.talk.draft.cancel(one)
    minutes.turns(1)
    minutes.say(f"{minutes.talk.verify.blocks.in_use} KV blocks in use")


def features(minutes: Minutes) -> None:
    minutes.turns(2)
    minutes.say("a method that wants features; each round brings those of its root and its path")
    one = minutes.talk.open("s", [3, 6, 3, 6, 3], max_new_tokens=12, ignore_eos=True)
    minutes.turns(3)
    minutes.say("a verdict is lost with its features, and both are asked for again")
    minutes.lose_next(m.FeatureRows)
    minutes.lose_next(m.Verdict)
    minutes.turns(1)
    minutes.talk.verify.peers.hear(b"draft", m.Heartbeat(b"", 0), minutes.talk.now + 10)
    minutes.talk.draft.fleet.links[0].heard(minutes.talk.now + 10)
    minutes.talk.now += 10.1
    minutes.turns(1)
    minutes.say("features alone are lost: the session is placed anew, and only they are sent")
    minutes.lose_next(m.FeatureRows)
    minutes.turns(12)
    minutes.say(f"committed: {minutes.talk.tokens(one)}")


@pytest.mark.parametrize(
    "scene", [a_stream, a_lost_verdict, a_restarted_verify_worker, a_cancelled_stream, features]
)
def test_what_was_said(scene):
    minutes = Minutes(CuriousDrafter() if scene is features else None)
    scene(minutes)
    text = "\n".join(minutes.lines) + "\n"
    file = FOLDER / f"{scene.__name__}.txt"
    if not file.exists():
        file.write_text(text)
        pytest.fail(f"{file.name} was written; read it, then run again")
    assert text == file.read_text()


def test_rounds_are_numbered_within_an_epoch():
    minutes = Minutes()
    minutes.turns(2)
    one = minutes.talk.open("s", [1, 2, 3], max_new_tokens=20, ignore_eos=True)
    minutes.turns(40)
    rounds = [done.round for done in minutes.talk.rounds[one] if isinstance(done, RoundDone)]
    assert rounds == list(range(len(rounds)))
