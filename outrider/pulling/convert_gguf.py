"""Turns the embedded model's GGUF file into bf16 safetensors, once; the only step that needs torch.

Run as a process of its own, so that nobody who pulls has torch in memory afterwards:
`python -m outrider.pulling.convert_gguf GGUF_FILE OUTPUT_FOLDER`. Refuses to know where either
lies. Quantised weights are multiplied out exactly, so the result has the same bits everywhere.
"""

import os
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig

from outrider.supervised import watch_parent


def convert(gguf_file: Path, output: Path) -> None:
    """Writes a folder that `transformers` loads by itself.

    Args:
        gguf_file: The model.
        output: Folder for weights, configuration, tokenizer and chat template; must exist.
    """
    folder, name = str(gguf_file.parent), gguf_file.name
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        gguf_file=name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    config = model.config
    # GGUF carries no limit for the tokenizer, and a name that nobody knows.
    tokenizer.model_max_length = config.max_position_embeddings
    vars(config).pop("_model_name_or_path", None)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.save_pretrained(output)
    tokenizer.save_pretrained(output)
    if not tokenizer.chat_template:
        raise SystemExit(f"{name} carries no chat template")


if __name__ == "__main__":
    watch_parent(lambda: os._exit(1), os.environ)
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
