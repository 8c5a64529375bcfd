"""Stage (c): the target's features and likeliest next tokens, stored or made as needed."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

from outrider.settings import BadSettings
from outrider.training.capture import TargetCapture
from outrider.training.captured import Captured, FeatureSource
from outrider.training.conversation import Conversation, LossOn
from outrider.training.feature_store import FeatureStore
from outrider.training.parallel import Ranks
from outrider.training.shards import (
    FeatureCosts,
    FeatureMode,
    bytes_per_token,
    fits,
    plan_shards,
    storing_pays,
)
from outrider.training.terminal import Terminal
from outrider.training.work_folder import Key, claim

SHARD_TOKENS = 8192
GIB = 2**30


@dataclass(frozen=True, slots=True)
class FeaturePlan:
    """What is to be captured.

    Args:
        conversations: All, held-out ones too.
        loss_on: Which tokens count.
        feature_size: Values of one token's features.
        likely_count: Likeliest next tokens kept of each.
        passes: Times that training goes over them.
        held_out: Conversations that are measured again and again.
        key: What stored features depend on.
    """

    conversations: Sequence[Conversation]
    loss_on: LossOn
    feature_size: int
    likely_count: int
    passes: int
    held_out: Sequence[int]
    key: Key


class Features:
    """Makes the source of features that training reads from.

    Args:
        plan: What is to be captured.
        load_capture: Loads the target; called when it is needed, once.
        folder: Of stored features.
        ranks: Who works together; each captures its share of the shards.
        terminal: Where progress is told.
    """

    def __init__(
        self,
        plan: FeaturePlan,
        load_capture: Callable[[], TargetCapture],
        folder: Path,
        ranks: Ranks,
        terminal: Terminal,
    ) -> None:
        self._plan, self._load, self._folder = plan, load_capture, folder
        self._ranks, self._terminal = ranks, terminal
        self._capture: TargetCapture | None = None
        self._lengths = [len(one) for one in plan.conversations]
        self._shards = plan_shards(self._lengths, SHARD_TOKENS)

    def source(self, mode: FeatureMode) -> FeatureSource:
        """Stored features once all are stored, or the target itself.

        Raises:
            BadSettings: They are to be stored and do not fit, or others lie in the folder.
        """
        needed = sum(self._lengths) * bytes_per_token(
            self._plan.feature_size, self._plan.likely_count
        )
        free = shutil.disk_usage(self._existing_folder()).free
        self._terminal.say(
            f"features: {sum(self._lengths)} tokens would take {needed / GIB:.2f} GiB; "
            f"{free / GIB:.1f} GiB are free"
        )
        if mode is FeatureMode.ONLINE or (mode is FeatureMode.AUTO and self._plan.passes == 1):
            return self._online("")
        is_there = self._folder.exists() and not self._store().missing()
        if not is_there and not fits(needed, free):
            if mode is FeatureMode.STORED:
                raise BadSettings(
                    f"--features stored needs {needed / GIB:.2f} GiB under {self._folder}"
                )
            return self._online(": there is no room to store them")
        if self._ranks.is_first:
            claim(self._folder, {**self._plan.key, "shard_tokens": SHARD_TOKENS})
        store = self._store()
        if mode is FeatureMode.AUTO and not self._agree(self._should_store(store)):
            return self._online(": that costs less here than storing and reading")
        self._store_missing(store)
        return store.read

    def _online(self, reason: str) -> FeatureSource:
        self._terminal.say(f"features: the target runs along with training{reason}")
        held_out = frozenset(self._plan.held_out)
        memory: dict[tuple[int, ...], Captured] = {}

        def source(indices: Sequence[int]) -> Captured:
            # Held-out conversations are measured in the same passes each time.
            if not held_out.issuperset(indices):
                return self._run(indices)
            kept = tuple(indices)
            if kept not in memory:
                memory[kept] = self._run(indices)
            return memory[kept]

        return source

    def _should_store(self, store: FeatureStore) -> bool:
        """Measures on the first shard, which is work done if the answer is yes."""
        if not self._ranks.is_first or 0 not in store.missing():
            return True
        times = [time.monotonic()]
        captured = self._run(store.shards[0])
        times.append(time.monotonic())
        store.write(0, captured)
        times.append(time.monotonic())
        store.read(store.shards[0])
        times.append(time.monotonic())
        tokens = len(captured.features)
        capture_s, write_s, read_s = ((end - begin) / tokens for begin, end in pairwise(times))
        self._terminal.say(
            f"features: {1 / capture_s:.0f} tokens/s from the target, {1 / write_s:.0f} to disk, "
            f"{1 / read_s:.0f} from it"
        )
        pays = storing_pays(FeatureCosts(capture_s, write_s, read_s), self._plan.passes)
        if not pays:
            store.remove(0)
        return pays

    def _store_missing(self, store: FeatureStore) -> None:
        own = range(self._ranks.rank, len(store.shards), self._ranks.count)
        missing = [number for number in store.missing() if number in own]
        tokens = [sum(self._lengths[i] for i in store.shards[number]) for number in own]
        left = sum(sum(self._lengths[i] for i in store.shards[number]) for number in missing)
        with self._terminal.bar("features", sum(tokens), sum(tokens) - left) as advance:
            for number in missing:
                captured = self._run(store.shards[number])
                store.write(number, captured)
                advance(len(captured.features))
        self._ranks.wait_for_all()

    def _run(self, indices: Sequence[int]) -> Captured:
        if self._capture is None:
            self._capture = self._load()
        conversations = [self._plan.conversations[index] for index in indices]
        return self._capture(
            [one.token_ids.tolist() for one in conversations],
            [one.first_counted(self._plan.loss_on) for one in conversations],
        )

    def _agree(self, own: bool) -> bool:
        """What the first rank says, on all of them."""
        said = torch.tensor(float(own and self._ranks.is_first), device=self._ranks.device)
        return bool(self._ranks.add_up(said) > 0)

    def _store(self) -> FeatureStore:
        return FeatureStore(self._folder, self._shards, self._lengths)

    def _existing_folder(self) -> Path:
        folder = self._folder
        while not folder.exists():
            folder = folder.parent
        return folder
