"""Stage (c): the target's features and likeliest next tokens, stored or made as needed."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

from outrider.settings import BadSettings
from outrider.training.batches import pack
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
        self._digests = [one.digest for one in plan.conversations]

    def source(self, mode: FeatureMode) -> FeatureSource:
        """Stored features once all are stored, or the target itself.

        Raises:
            BadSettings: They are to be stored and do not fit, or others lie in the folder.
        """
        store = FeatureStore(self._folder) if self._folder.exists() else None
        missing = self._missing(store)
        self._ranks.wait_for_all()  # all have seen the same, before anybody writes
        token_bytes = bytes_per_token(self._plan.feature_size, self._plan.likely_count)
        needed = sum(self._lengths[index] for index in missing) * token_bytes
        free = shutil.disk_usage(self._existing_folder()).free
        self._terminal.say(
            f"features: of {len(self._lengths)} conversations {len(missing)} are not stored yet "
            f"and would take {needed / GIB:.2f} GiB; {free / GIB:.1f} GiB are free"
        )
        if mode is FeatureMode.ONLINE or (mode is FeatureMode.AUTO and self._plan.passes == 1):
            return self._online("")
        if missing and not fits(needed, free):
            if mode is FeatureMode.STORED:
                raise BadSettings(
                    f"--features stored needs {needed / GIB:.2f} GiB under {self._folder}"
                )
            return self._online(": there is no room to store them")
        if self._ranks.is_first:
            claim(self._folder, self._plan.key)
        store = store or FeatureStore(self._folder)
        if mode is FeatureMode.AUTO and not self._agree(self._should_store(store, missing)):
            return self._online(": that costs less here than storing and reading")
        self._store_missing(store, missing)
        return lambda indices: store.read([self._digests[index] for index in indices])

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

    def _should_store(self, store: FeatureStore, missing: Sequence[int]) -> bool:
        """Measures on the first shard, which is work done if the answer is yes."""
        if not self._ranks.is_first or len(missing) < len(self._lengths):
            return True  # what is begun is finished
        first = self._shards(missing)[0]
        times = [time.monotonic()]
        captured = self._run(first)
        times.append(time.monotonic())
        self._write(store, first, captured)
        times.append(time.monotonic())
        store.read([self._digests[index] for index in first])
        times.append(time.monotonic())
        tokens = len(captured.features)
        capture_s, write_s, read_s = ((end - begin) / tokens for begin, end in pairwise(times))
        self._terminal.say(
            f"features: {1 / capture_s:.0f} tokens/s from the target, {1 / write_s:.0f} to disk, "
            f"{1 / read_s:.0f} from it"
        )
        pays = storing_pays(FeatureCosts(capture_s, write_s, read_s), self._plan.passes)
        if not pays:
            store.remove(self._digests[first[0]])
        return pays

    def _store_missing(self, store: FeatureStore, missing: Sequence[int]) -> None:
        own = self._shards(missing)[self._ranks.rank :: self._ranks.count]
        left = [shard for shard in own if self._digests[shard[0]] not in store]
        tokens = sum(self._lengths[index] for shard in own for index in shard)
        rest = sum(self._lengths[index] for shard in left for index in shard)
        with self._terminal.bar("features", tokens, tokens - rest) as advance:
            for shard in left:
                captured = self._run(shard)
                self._write(store, shard, captured)
                advance(len(captured.features))
        self._ranks.wait_for_all()
        store.look()

    def _shards(self, missing: Sequence[int]) -> list[list[int]]:
        return pack(missing, self._lengths, SHARD_TOKENS)

    def _write(self, store: FeatureStore, shard: Sequence[int], captured: Captured) -> None:
        store.write({self._digests[index]: self._lengths[index] for index in shard}, captured)

    def _missing(self, store: FeatureStore | None) -> list[int]:
        return [
            index
            for index, digest in enumerate(self._digests)
            if store is None or digest not in store
        ]

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

    def _existing_folder(self) -> Path:
        folder = self._folder
        while not folder.exists():
            folder = folder.parent
        return folder
