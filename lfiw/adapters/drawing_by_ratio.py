"""LFIW as a priority, in torch: the twin of `lfiw.replay.lfiw_priority`."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from lfiw.adapters.drawing import Draw, Order, bits, recent_slots, uniforms, unit
from lfiw.adapters.drawing_by_error import Prioritised
from lfiw.adapters.torch_ratio import trust_above
from lfiw.replay.lfiw_priority import LARGEST, SMALLEST, LfiwPriorityNoise
from lfiw.replay.sum_tree import LEVELS
from lfiw.types import Clock


class ByRatio(Prioritised):
    """The ratios of what was drawn come from outside, by `refresh`."""

    needs_errors = False

    def noise(self, count: int, generator: Generator) -> LfiwPriorityNoise:
        part, places = uniforms((count,), generator), uniforms((LEVELS, count), generator)
        fast = bits(0, generator)  # the buffer itself draws the fast memory
        return LfiwPriorityNoise(part, places, bits(count, generator), fast)

    def sample(self, noise: LfiwPriorityNoise, order: Order, clock: Clock) -> Draw:
        by_ratio = self.tree.find(noise.by_ratio)
        # On a scale where the mean of all is one. Drawn in proportion to themselves, their mean is
        # 1 + the spread of all.
        relative = self.tree.leaves[by_ratio] * (order.size / self.tree.total())
        spread = (relative.mean() - 1).clamp(min=0.0)
        trust = trust_above(self.config.min_effective_sample_size, spread)
        self.trace = {
            "effective_sample_size": 1 / (1 + trust**2 * spread),
            "raw_effective_sample_size": 1 / (1 + spread),
            "trust": trust,
        }
        uniform = recent_slots(noise.slow, order, order.size)
        return unit(torch.where(noise.part < trust, by_ratio, uniform))

    def refresh(self, slots: Tensor, ratios: Tensor) -> None:
        self.prioritise(slots, ratios.cpu().double().clamp(SMALLEST, LARGEST))
