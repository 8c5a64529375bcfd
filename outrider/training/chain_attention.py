"""Attention of the training-time test: who sees whom when a head is fed its own guesses.

In step 0 every row attends causally over its conversation. In step i > 0 the row that continues the
chain started at row p sees the keys of step 0 up to row p, which had true features, and behind them
its own chain's keys of steps 1 to i. (EAGLE-3, section 3.2 and figure 6, where the same is drawn as
diagonals of a mask; counted by the start of a chain they are no mask at all.)
"""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from outrider.modeling.heads.causal_attention import causal_attend


class ChainAttention:
    """An `Attend` callback over conversations laid end to end; `begin` comes before each step.

    Args:
        lengths: Rows of each conversation.
        starts: Row of each chain's start, rising, int64 `[num_chains]`.
        chain_counts: Chains of each conversation.
    """

    def __init__(self, lengths: Sequence[int], starts: Tensor, chain_counts: Sequence[int]) -> None:
        self._lengths, self._counts = list(lengths), list(chain_counts)
        self._visible = [
            part[:, None] >= torch.arange(begin, begin + length, device=starts.device)
            for part, begin, length in zip(
                torch.split(starts, self._counts), _begins(lengths), lengths, strict=True
            )
        ]
        self._step = 0
        self._roots: dict[int, tuple[Tensor, Tensor]] = {}
        self._links: dict[int, list[tuple[Tensor, Tensor]]] = {}

    def begin(self, step: int) -> None:
        """Says which step the next calls belong to."""
        self._step = step

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As `Attend`: in step 0 `[num_rows, ...]`, in later ones `[num_chains, ...]`."""
        if self._step == 0:
            self._roots[layer] = (key, value)
            self._links[layer] = []
            return self._attend_causally(query, key, value)
        self._links[layer].append((key, value))
        return self._attend_along_chains(layer, query)

    def _attend_causally(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        parts = (torch.split(tensor, self._lengths) for tensor in (query, key, value))
        return torch.cat([causal_attend(0, *part) for part in zip(*parts, strict=True)])

    def _attend_along_chains(self, layer: int, query: Tensor) -> Tensor:
        root_keys, root_values = self._roots[layer]
        keys, values = zip(*self._links[layer], strict=True)
        num_chains, heads, dim = query.shape
        kv_heads = root_keys.shape[1]
        folded = query.view(num_chains, kv_heads, heads // kv_heads, dim) * dim**-0.5
        scores = torch.stack([(folded * key[:, :, None]).sum(-1) for key in keys], dim=-1)
        on_roots, link_shares = [], []
        for part in zip(
            torch.split(folded, self._counts),
            torch.split(scores, self._counts),
            self._visible,
            torch.split(root_keys, self._lengths),
            torch.split(root_values, self._lengths),
            strict=True,
        ):
            mixed, shares = _attend_to_roots(*part)
            on_roots.append(mixed)
            link_shares.append(shares)
        total, shares = torch.cat(on_roots), torch.cat(link_shares)
        for link, value in enumerate(values):
            total = total + shares[..., link, None] * value[:, :, None]
        return total.flatten(1, 2)


def _attend_to_roots(
    query: Tensor, link_scores: Tensor, visible: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """One conversation's chains.

    Args:
        query: Scaled, `[num_chains, kv_heads, group, head_dim]`.
        link_scores: Of each chain's own keys, `[num_chains, kv_heads, group, num_links]`.
        visible: Bool `[num_chains, num_rows]`.
        keys: Of step 0, `[num_rows, kv_heads, head_dim]`.
        values: The same.

    Returns:
        The values of step 0, mixed, `[num_chains, kv_heads, group, head_dim]`, and what is left
        for each of the chain's own, `[num_chains, kv_heads, group, num_links]`.
    """
    root_scores = torch.einsum("ckgd,rkd->ckgr", query, keys)
    root_scores = root_scores.masked_fill(~visible[:, None, None], -torch.inf)
    shares = torch.cat([root_scores, link_scores], dim=-1).softmax(dim=-1)
    root_shares, link_shares = torch.tensor_split(shares, [len(keys)], dim=-1)
    return torch.einsum("ckgr,rkd->ckgd", root_shares, values), link_shares


def _begins(lengths: Sequence[int]) -> list[int]:
    return [0, *accumulate(lengths)][:-1]
