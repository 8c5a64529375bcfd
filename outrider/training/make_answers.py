"""Stage (b): the target answers every prompt, many streams at a time; finished lines stay.

A head learns what its target says, so answers always come from the target itself, as greedy and as
varied as it will be asked later.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from outrider.evaluation.client import Answer
from outrider.training.asking import Question, ask_all
from outrider.training.chat_frame import ChatFrame
from outrider.training.conversation import Conversation
from outrider.training.prompts import Prompt
from outrider.training.serving import Serving
from outrider.training.terminal import Terminal
from outrider.training.work_folder import WorkFolder, open_log

SEED_BYTES = 6


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How prompts are answered.

    Args:
        max_new_tokens: Of an answer.
        temperatures: Taken in turn, by the prompt's digest; 0 is greedy.
        top_k: Most likely tokens that are drawn from; 0 is all.
        per_prompt: Answers to each prompt, with different seeds.
        max_tokens: Longest conversation; prompts that leave no room for an answer are passed over.
        seed: Of all seeds.
    """

    max_new_tokens: int
    temperatures: Sequence[float]
    top_k: int
    per_prompt: int
    max_tokens: int
    seed: int


def make_answers(
    prompts: Sequence[Prompt],
    options: AnswerOptions,
    frame: ChatFrame,
    work: WorkFolder,
    serving: Serving,
    terminal: Terminal,
) -> list[Conversation]:
    """Answers what has not been answered yet.

    Returns:
        A conversation for each answer to these prompts.

    Raises:
        AskFailed: The service fails.
        BadSettings: The work was begun with other settings.
        ServiceFailed: No service could be started.
    """
    key = {
        "target": serving.target_name,
        "max_new_tokens": options.max_new_tokens,
        "temperatures": list(options.temperatures),
        "top_k": options.top_k,
        "seed": options.seed,
    }
    log = open_log(work.answers, key)
    wanted = {question.key: question for question in _questions(prompts, options, frame)}
    done = {record["key"] for record in log.records}
    missing = [question for question in wanted.values() if question.key not in done]
    with terminal.bar("answers", len(wanted), len(wanted) - len(missing)) as advance:

        def keep(question: Question, answer: Answer) -> None:
            ids = [*question.token_ids, *answer.token_ids]
            log.append(
                {"key": question.key, "ids": ids, "p": len(question.token_ids),
                 "temperature": question.temperature, "seed": question.seed}
            )  # fmt: skip
            advance(1)

        if missing:
            ask_all(serving.address(), missing, serving.streams, serving.method, keep)
    kept = [record for record in log.records if record["key"] in wanted]
    passed_over = len(prompts) * options.per_prompt - len(wanted)
    tokens = sum(len(record["ids"]) - record["p"] for record in kept)
    note = f"; {passed_over} prompts are too long" if passed_over else ""
    terminal.say(f"answers: {len(kept)} of {tokens} tokens in all{note}")
    return [Conversation(np.array(one["ids"], dtype=np.int32), one["p"]) for one in kept]


def _questions(
    prompts: Sequence[Prompt], options: AnswerOptions, frame: ChatFrame
) -> Iterable[Question]:
    for prompt in prompts:
        token_ids = frame.prompt_ids(prompt)
        room = options.max_tokens - len(token_ids)
        for variant in range(options.per_prompt if room > 0 else 0):
            number = _number(options.seed, prompt.digest, variant)
            temperature = options.temperatures[number % len(options.temperatures)]
            yield Question(
                f"{prompt.digest}-{variant}", token_ids, min(options.max_new_tokens, room),
                temperature, options.top_k if temperature else 0, number,
            )  # fmt: skip


def _number(seed: int, digest: str, variant: int) -> int:
    """A seed of its own for each answer, whatever other prompts there are."""
    raw = hashlib.blake2b(f"{seed}:{digest}:{variant}".encode(), digest_size=SEED_BYTES).digest()
    return int.from_bytes(raw, "little")
