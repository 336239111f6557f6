"""The twin of `lfiw.replay.sum_tree`: draw a slot in proportion to its priority."""

from __future__ import annotations

import torch
from torch import Tensor

from lfiw.replay.sum_tree import BRANCHING

BELOW_ONE = 1 - 2.0**-52


class SumTree:
    """Priorities of slots, and the sums of BRANCHING of them, and of their sums."""

    def __init__(self, leaves: Tensor) -> None:
        self.levels = [leaves.new_zeros(-(-len(leaves) // BRANCHING) * BRANCHING)]
        self.levels[0][: len(leaves)] = leaves
        while len(self.levels[0]) > BRANCHING:
            sums = self.levels[0].view(-1, BRANCHING).sum(dim=1)
            above = sums.new_zeros(-(-len(sums) // BRANCHING) * BRANCHING)
            above[: len(sums)] = sums
            self.levels.insert(0, above)

    @property
    def leaves(self) -> Tensor:
        return self.levels[-1]

    def total(self) -> Tensor:
        return self.levels[0].sum()

    def set(self, slots: Tensor, priorities: Tensor) -> None:
        """Of duplicates the largest wins. Sums are taken anew, so that no errors pile up."""
        if not len(slots):
            return
        self.leaves[slots] = 0.0
        self.leaves.scatter_reduce_(0, slots, priorities, "amax")
        for above, below in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            slots = slots // BRANCHING
            above[slots] = below.view(-1, BRANCHING)[slots].sum(dim=1)

    def find(self, uniforms: Tensor) -> Tensor:
        """Slots [B] for uniforms [levels, B] in [0, 1); a zero priority is never drawn."""
        nodes = torch.zeros(uniforms.shape[1], dtype=torch.int64)
        for level, points in zip(self.levels, uniforms, strict=False):
            running = level.view(-1, BRANCHING)[nodes].cumsum(dim=1)
            # Rounding may not reach the end, behind which nothing can be drawn.
            places = points.clamp(max=BELOW_ONE) * running[:, -1]
            child = torch.searchsorted(running, places[:, None], right=True)[:, 0]
            nodes = nodes * BRANCHING + child
        return nodes
