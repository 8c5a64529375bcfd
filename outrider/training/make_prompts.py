"""Stage (a): prompts from files, and such as the target writes itself.

The target is given its chat template's beginning of a user message, and perhaps the message's first
words, and goes on as the user; the same seed gives the same words, on any service.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.evaluation.client import Answer
from outrider.training.asking import Question, ask_all
from outrider.training.chat_frame import ChatFrame
from outrider.training.prompts import (
    Message,
    Opening,
    Prompt,
    in_order,
    openings_digest,
    read_opening,
    read_prompt,
    user_prompt,
)
from outrider.training.serving import Serving
from outrider.training.terminal import Terminal
from outrider.training.work_folder import WorkFolder, open_log, read_rows, write_rows

CUT = "FINISH_REASON_LENGTH"


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """Where prompts come from.

    Args:
        files: JSON lines of texts or messages.
        own_count: Prompts that the target is asked to write.
        openings: JSON lines of first words of those, which take turns; none: it begins itself.
        max_tokens: Of one of those.
        temperature: At which it writes.
        top_k: Most likely tokens that it draws from; 0 is all.
        keeps_cut: True: a prompt that reaches `max_tokens` is taken as it is.
        seed: Of the first; the others follow.
    """

    files: Sequence[Path]
    own_count: int
    openings: Sequence[Path]
    max_tokens: int
    temperature: float
    top_k: int
    keeps_cut: bool
    seed: int


def make_prompts(
    options: PromptOptions,
    frame: ChatFrame,
    work: WorkFolder,
    serving: Serving,
    terminal: Terminal,
) -> list[Prompt]:
    """All prompts, each once, in a fixed order; written down for whoever wants to look.

    Raises:
        AskFailed: The service fails.
        BadConversations: A file cannot be used.
        BadSettings: The target cannot write prompts, or the work was begun with other settings.
        ServiceFailed: No service could be started.
    """
    given = [read_prompt(row, where) for path in options.files for row, where in read_rows(path)]
    own = _write_own(options, frame, work, serving, terminal) if options.own_count else []
    prompts = in_order([*given, *own])
    write_rows(work.prompts, ({"messages": [_row(m) for m in p.messages]} for p in prompts))
    terminal.say(
        f"prompts: {len(prompts)} different ones, from {len(given)} in files and {len(own)} that "
        "the target wrote"
    )
    return prompts


def _write_own(
    options: PromptOptions,
    frame: ChatFrame,
    work: WorkFolder,
    serving: Serving,
    terminal: Terminal,
) -> list[Prompt]:
    openings = [read_opening(row, at) for path in options.openings for row, at in read_rows(path)]
    openings = openings or [Opening("")]
    key = {
        "target": serving.target_name,
        "max_tokens": options.max_tokens,
        "temperature": options.temperature,
        "top_k": options.top_k,
        "openings": openings_digest(openings),
    }
    log = open_log(work.user_turns, key)
    seeds = range(options.seed, options.seed + options.own_count)
    done = {record["seed"] for record in log.records}
    missing = [seed for seed in seeds if seed not in done]
    turns = [frame.user_turn(opening.text) for opening in openings]

    def questions() -> Iterable[Question]:
        for seed in missing:
            opening, turn = openings[seed % len(turns)], turns[seed % len(turns)]
            most = opening.max_tokens or options.max_tokens
            yield Question(
                str(seed), turn.begin_ids, most, options.temperature, options.top_k, seed,
                turn.end_ids,
            )  # fmt: skip

    with terminal.bar("prompts", len(seeds), len(seeds) - len(missing)) as advance:

        def keep(question: Question, answer: Answer) -> None:
            text = openings[question.seed % len(openings)].text + frame.words(answer.token_ids)
            is_cut = answer.finish_reason == CUT
            log.append({"seed": question.seed, "text": text.strip(), "cut": is_cut})
            advance(1)

        if missing:
            ask_all(serving.address(), questions(), serving.streams, serving.method, keep)
    return [
        user_prompt(record["text"])
        for record in log.records
        if record["seed"] in seeds and record["text"] and (options.keeps_cut or not record["cut"])
    ]


def _row(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content}
