"""How close sampled decisions were: the gap between the two best of log-probability plus noise.

A process of its own, started only where sampled ids differ: a gap of the size of rounding errors
explains a difference, a larger one is a fault. Lines of JSON go in and out.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from outrider.evaluation.plain_target import PlainTarget
from outrider.protocol.sampling_noise import gumbel


class MarginsFailed(Exception):
    """The process ended; see its own words on stderr."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One drawn token.

    Args:
        text: The user's message.
        before: Ids generated before it.
        seed: Of the request.
        temperature: Above 0; nothing else shapes the distribution.
    """

    text: str
    before: tuple[int, ...]
    seed: int
    temperature: float


def noisy_margin(
    logits: npt.NDArray[np.float64], seed: int, position: int, temperature: float
) -> float:
    """Gap between the two best of `log p(token) + gumbel`, at least 0.

    Args:
        logits: Of the target, `[vocab_size]`.
        seed: Of the request.
        position: Of the drawn token, the prompt included, from 0.
        temperature: Above 0.
    """
    scaled = logits / temperature
    noise = gumbel(seed, position, np.arange(len(logits), dtype=np.int64))
    # The normaliser of log p is the same for all tokens and falls out of the gap.
    second, best = np.partition(scaled + noise, -2)[-2:]
    return float(best - second)


def margins_of(model: str, threads: int, decisions: Sequence[Decision]) -> list[float]:
    """Computes the margins in a process of its own.

    Raises:
        MarginsFailed: It failed.
    """
    command = [sys.executable, "-m", __name__, model, str(threads)]
    lines = "".join(json.dumps(asdict(decision)) + "\n" for decision in decisions)
    done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise MarginsFailed("the margins of the sampled mismatches could not be computed")
    return [float(line) for line in done.stdout.splitlines()]


def main(model: str, threads: str) -> None:
    """Answers each line of stdin."""
    target = PlainTarget(model, int(threads))
    for line in sys.stdin:
        decision = Decision(**json.loads(line))
        ids = [*target.prompt_ids(decision.text), *decision.before]
        logits = np.asarray(target.next_logits(ids), dtype=np.float64)
        margin = noisy_margin(logits, decision.seed, len(ids), decision.temperature)
        sys.stdout.write(f"{margin!r}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
