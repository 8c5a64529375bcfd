"""Stages (a) and (b) together: the conversations of a run, from files and from a service."""

from outrider.evaluation.service import ServiceOptions
from outrider.training.chat_frame import ChatFrame
from outrider.training.conversation import BadConversations, Conversation, prepare
from outrider.training.make_answers import make_answers
from outrider.training.make_prompts import make_prompts
from outrider.training.options import TrainOptions
from outrider.training.serving import Serving
from outrider.training.target_folder import TargetFolder
from outrider.training.terminal import Terminal
from outrider.training.work_folder import WorkFolder, read_conversations, write_conversations


def gather(
    options: TrainOptions, target: TargetFolder, work: WorkFolder, terminal: Terminal
) -> None:
    """Makes what is missing and writes down all conversations.

    Raises:
        AskFailed: The service fails.
        BadConversations: A file cannot be used, or nothing is left to train on.
        BadSettings: The target cannot write prompts, or the work was begun with other settings.
        ServiceFailed: No service could be started.
    """
    given = [
        one
        for path in options.conversations
        for one in read_conversations(path, target.files.vocab_size)
    ]
    made: list[Conversation] = []
    if options.prompts.files or options.prompts.own_count:
        made = _ask_target(options, target, work, terminal)
    else:
        terminal.say("prompts and answers: skipped, the conversations are given")
    conversations = prepare([*given, *made], options.recipe.max_tokens, options.recipe.loss_on)
    if not conversations:
        raise BadConversations("there is no conversation with an answer to learn from")
    write_conversations(work.conversations, conversations)
    terminal.say(
        f"conversations: {len(conversations)} different ones of "
        f"{sum(map(len, conversations))} tokens"
    )


def sources(options: TrainOptions, target: TargetFolder) -> list[str]:
    """What the head was made of, in words for the card."""
    words = []
    if options.from_head is not None:
        words.append(f"the earlier head `{options.from_head.name}`, from which training went on")
    words += [f"conversations from `{path.name}`" for path in options.conversations]
    words += [f"prompts from `{path.name}`" for path in options.prompts.files]
    if options.prompts.own_count:
        words.append(
            f"{options.prompts.own_count:,} prompts written by {target.name} itself, from its "
            f"chat template, at temperature {options.prompts.temperature:g}"
        )
    if options.prompts.files or options.prompts.own_count:
        temperatures = ", ".join(f"{one:g}" for one in options.answers.temperatures)
        words.append(f"answers by {target.name}, at temperatures {temperatures} in turn")
    return words


def _ask_target(
    options: TrainOptions, target: TargetFolder, work: WorkFolder, terminal: Terminal
) -> list[Conversation]:
    frame = ChatFrame(target.folder)
    how = ServiceOptions(str(target.folder), options.target_dtype, options.threads)
    with Serving(
        target.name, options.address, how, options.streams, options.method, terminal
    ) as serving:
        prompts = make_prompts(options.prompts, frame, work, serving, terminal)
        return make_answers(prompts, options.answers, frame, work, serving, terminal)
