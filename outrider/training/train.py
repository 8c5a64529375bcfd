"""The command `outrider train`: options in, all stages, exit status out."""

import os
import sys
import time
from collections.abc import Sequence

from outrider.evaluation.client import AskFailed
from outrider.evaluation.service import ServiceFailed, end_with_sigterm
from outrider.modeling.heads.checkpoints import BadCheckpoint
from outrider.settings import EXIT_BAD_SETTINGS, BadSettings
from outrider.training.conversation import BadConversations
from outrider.training.options import TrainOptions, read_options
from outrider.training.parallel import Ranks, join_ranks
from outrider.training.pipeline import run_pipeline
from outrider.training.smoke import smoke_options, verdict
from outrider.training.terminal import Terminal, clock

EXIT_FAILED = 1


def main(argv: Sequence[str]) -> int:
    """Runs the command.

    Args:
        argv: Flags, without the program's name.

    Returns:
        0; 1 where it failed, or a smoke run made no working head; 78 for bad settings.
    """
    end_with_sigterm()
    try:
        options = read_options(argv)
        with join_ranks(os.environ, options.device) as ranks:
            return _run(options, ranks)
    except BadSettings as error:
        return _fail(str(error), EXIT_BAD_SETTINGS)
    except (AskFailed, BadCheckpoint, BadConversations, ServiceFailed) as error:
        return _fail(str(error), EXIT_FAILED)


def _run(options: TrainOptions, ranks: Ranks) -> int:
    begin = time.monotonic()
    terminal = Terminal(is_silent=not ranks.is_first)
    if options.smoke:
        if ranks.count > 1:
            raise BadSettings("--smoke is for one process")
        options = smoke_options(options, terminal)
    result = run_pipeline(options, ranks, terminal)
    terminal.say(f"done in {clock(time.monotonic() - begin)}")
    if options.smoke:
        text, works = verdict(result)
        terminal.say(text)
        return 0 if works else EXIT_FAILED
    terminal.say(
        f"Try next:\n  outrider inspect {result.head} --target {result.target}\n"
        f"  OUTRIDER_DRAFT_HEAD={result.head} OUTRIDER_DRAFT_TARGET={result.target} "
        f"outrider up --model {result.target}"
    )
    return 0


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"outrider train: {message}\n")
    return status
