"""The target alone, through `transformers`: what speculation must equal, and what it must beat.

Knows nothing of Outrider's services, of files or of progress. Loading takes torch into the process.
"""

import time
from collections.abc import Sequence
from typing import Any

from outrider.evaluation.prompts import Prompt
from outrider.evaluation.reference_rows import Reference
from outrider.evaluation.throughput import Timing


class PlainTarget:
    """The model and its tokenizer, loaded in this process.

    Args:
        model: Folder or hub name.
        threads: Threads of torch; 0: torch's own choice.
        dtype: Name of the torch dtype, or "auto" for what a verify worker on this CPU chooses.
    """

    def __init__(self, model: str, threads: int = 0, dtype: str = "float32") -> None:
        import torch  # noqa: PLC0415  # heavy: only the process that generates needs it
        from transformers import AutoModelForCausalLM, AutoTokenizer, logging  # noqa: PLC0415

        from outrider.modeling.dtypes import choose_dtype  # noqa: PLC0415

        library_log: Any = logging
        library_log.disable_progress_bar()  # its bar and ours would write over each other
        self._torch = torch
        if threads:
            torch.set_num_threads(threads)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(model)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            model, dtype=choose_dtype(dtype, on_cpu=True)
        )
        self._model = loaded.eval()

    def prompt_ids(self, text: str) -> list[int]:
        """Ids of one user message through the chat template, ready for the answer."""
        encoded = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=True
        )
        return list(encoded["input_ids"])

    def ends(self, ids: Sequence[int]) -> bool:
        """True where the last id is one of the model's end-of-sequence ids."""
        eos = self._model.generation_config.eos_token_id
        return bool(ids) and ids[-1] in ([eos] if isinstance(eos, int) else eos or [])

    def generate(self, prompt_ids: Sequence[int], max_new_tokens: int, **options: Any) -> Any:
        """What `generate(do_sample=False)` returns for one prompt."""
        rows = self._torch.tensor([list(prompt_ids)])
        with self._torch.inference_mode():
            return self._model.generate(
                rows,
                attention_mask=self._torch.ones_like(rows),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                **options,
            )

    def next_logits(self, ids: Sequence[int]) -> list[float]:
        """Logits behind the last of some ids, `[vocab_size]`."""
        with self._torch.inference_mode():
            logits = self._model(self._torch.tensor([list(ids)]), use_cache=False).logits
        return list(logits[0, -1].tolist())

    def reference(self, prompt: Prompt, max_new_tokens: int) -> Reference:
        """Generates one row."""
        prompt_ids = self.prompt_ids(prompt.text)
        start = time.monotonic()
        output = self.generate(
            prompt_ids, max_new_tokens, output_logits=True, return_dict_in_generate=True
        )
        top = self._torch.cat(output.logits).topk(2)
        margins = (top.values[:, 0] - top.values[:, 1]).tolist()
        return Reference(
            task=prompt.task,
            id=prompt.id,
            digest=prompt.digest,
            prompt_ids=tuple(prompt_ids),
            ids=tuple(output.sequences[0, len(prompt_ids) :].tolist()),
            runner_up=tuple(top.indices[:, 1].tolist()),
            margins=tuple(round(margin, 6) for margin in margins),
            seconds=round(time.monotonic() - start, 2),
        )

    def timed(self, text: str, max_new_tokens: int) -> Timing:
        """Generates an answer and notes when its first and its last token came."""
        prompt_ids = self.prompt_ids(text)
        clock = _TokenClock()
        self.generate(prompt_ids, max_new_tokens, streamer=clock)
        return Timing(clock.tokens, 1, clock.first_s, clock.last_s)


class _TokenClock:
    """A streamer that keeps times only; `generate` hands it the prompt first."""

    def __init__(self) -> None:
        self.tokens = -1
        self.first_s = self.last_s = 0.0
        self._start = time.monotonic()

    def put(self, _: Any) -> None:
        self.tokens += 1
        self.last_s = time.monotonic() - self._start
        if self.tokens == 1:
            self.first_s = self.last_s

    def end(self) -> None:
        """Nothing is left to do."""
