"""The strategies that draw by age, in torch: the twins of those in `lfiw.replay`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Generator, Tensor

from lfiw.adapters.drawing import Draw, Order, Uniform, bits, recent_slots, uniforms, unit
from lfiw.replay.inverse_age import STRIPS, TABLE, InverseAgeNoise
from lfiw.replay.recency import BLOCK, MIN_DECAY, RecencyNoise
from lfiw.types import Clock, anneal


class Ere(Uniform):
    is_uniform = False

    def window(self, clock: Clock) -> float:
        """c_k = max(N eta^(1000 k / K), c_min) for update k = 1..K of the cycle."""
        config = self.config
        eta = anneal(config.eta, config.eta_end, clock)
        position = (clock.updates % config.cycle_updates + 1) / config.cycle_updates
        return max(self.capacity * float(eta) ** (1000 * float(position)), config.min_window)

    def sample(self, noise: Tensor, order: Order, clock: Clock) -> Draw:
        window = min(self.window(clock), order.size)
        self.trace = {"window": window}
        return unit(recent_slots(noise, order, int(window)))


def geometric(uniforms: Tensor, count: Tensor | int, decay: float) -> Tensor:
    """Real numbers x in [0, count] whose whole part k has P(k) ~ exp(-decay k)."""
    reach = torch.expm1(-decay * torch.as_tensor(count, dtype=uniforms.dtype))
    return -torch.log1p(uniforms * reach) / decay


def recent_ages(noise: RecencyNoise, size: int, rate: float, floor: float) -> Tensor:
    """Ages [B] in 0..size-1 with P(k) ~ max(floor, (1 - rate)^k)."""
    part, block, within, flat = (torch.as_tensor(values) for values in noise)
    decay = max(-math.log1p(-rate), MIN_DECAY)
    # Ages below `crossing` decay.
    crossing = size if floor == 0 else int(min(-math.log(floor) / decay + 1, size))
    decaying_mass = math.expm1(-decay * crossing) / math.expm1(-decay)
    flat_mass = floor * (size - crossing)

    # A geometric series is one again within each block, of which the last may be shorter.
    last = (crossing - 1) // BLOCK
    blocks = (geometric(block, crossing, decay) / BLOCK).long()
    start = blocks.clamp(max=last) * BLOCK
    length = (crossing - start).clamp(max=BLOCK)
    decaying = start + torch.minimum(geometric(within, length, decay).long(), length - 1)

    at_floor = (crossing + flat % max(size - crossing, 1)).clamp(max=size - 1)
    return torch.where(part * (decaying_mass + flat_mass) < decaying_mass, decaying, at_floor)


class Recency(Uniform):
    is_uniform = False

    def noise(self, count: int, generator: Generator) -> RecencyNoise:
        part, block, within = uniforms((3, count), generator)
        return RecencyNoise(part, block, within, bits(count, generator))

    def sample(self, noise: RecencyNoise, order: Order, clock: Clock) -> Draw:
        ages = recent_ages(noise, order.size, self.config.rate, self.config.floor)
        return unit(order.slots(ages))


def inverse_ages(noise: InverseAgeNoise, size: int, offset: float) -> Tensor:
    """Ages [B] in 0..size-1 with P(k) ~ 1 / (k + offset)."""
    part, age, within = (torch.as_tensor(values) for values in noise)
    running = (1 / (torch.arange(min(TABLE, size), dtype=part.dtype) + offset)).cumsum(0)
    first = TABLE + offset - 0.5  # where the closed form begins
    tail_mass = math.log(max((size + offset - 0.5) / first, 1.0))
    head_mass = running[-1]

    head = torch.searchsorted(running, age * head_mass, right=True)
    width = tail_mass / STRIPS
    start = torch.exp(torch.floor(age * STRIPS) * width)
    tail = (first * start * torch.exp(within * width) - offset + 0.5).long()
    drawn = torch.where(part * (head_mass + tail_mass) < head_mass, head, tail)
    return drawn.clamp(max=size - 1)


class InverseAge(Uniform):
    is_uniform = False

    def noise(self, count: int, generator: Generator) -> InverseAgeNoise:
        return InverseAgeNoise(*uniforms((3, count), generator))

    def sample(self, noise: InverseAgeNoise, order: Order, clock: Clock) -> Draw:
        return unit(order.slots(inverse_ages(noise, order.size, self.config.offset)))


class Cer(Uniform):
    is_uniform = False
    added = updates = turn = 0  # slots that came last, updates for them, and those since then

    def add(self, slots: Tensor, updates: int) -> None:
        if len(slots):
            self.added, self.updates, self.turn = len(slots), updates, 0

    def sample(self, noise: Tensor, order: Order, clock: Clock) -> Draw:
        slots = recent_slots(noise, order, order.size)
        age = self.turn * self.added // self.updates if self.turn < self.updates else 0
        slots[0] = order.slots(torch.tensor(min(age, order.size - 1)))
        self.turn += 1
        return unit(slots)

    def state_dict(self) -> dict[str, Any]:
        return {"added": self.added, "updates": self.updates, "turn": self.turn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.added, self.updates, self.turn = state["added"], state["updates"], state["turn"]
