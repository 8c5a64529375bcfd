"""The canary's prompts as token ids of a target."""

import logging
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from outrider.canary import PROMPTS, prompt_ids

logger = logging.getLogger(__name__)


def canary_prompts(target: Path) -> list[list[int]]:
    """Reads the tokenizer beside a target's weights; without one there are no prompts.

    Args:
        target: Folder of the target.
    """
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(target, local_files_only=True)
        return [prompt_ids(tokenizer, prompt) for prompt in PROMPTS]
    except (OSError, ValueError) as error:
        logger.warning("canary: left out, %s has no tokenizer that can be read: %s", target, error)
        return []
