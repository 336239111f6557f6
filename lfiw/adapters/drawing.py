"""What a replay strategy is in torch: the twin of `lfiw.replay.base` and of uniform replay.

A strategy knows slots, not transitions. It hears which were written and draws by age or priority;
the library's own buffer hands out what is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from lfiw.types import Clock

BITS = 2**32


class Order(NamedTuple):
    """The slots that can be drawn, by age: 0 is the newest. They are the newest `size` of a ring
    that is written next at `head`, unless they are listed."""

    capacity: int
    head: int
    size: int
    listed: Tensor | None = None  # [size] oldest first

    def slots(self, ages: Tensor) -> Tensor:
        if self.listed is not None:
            return self.listed[self.size - 1 - ages]
        return (self.head - 1 - ages) % self.capacity


class Draw(NamedTuple):
    slots: Tensor  # [B]
    weights: Tensor  # [B] multiply the critic's loss


def unit(slots: Tensor) -> Draw:
    return Draw(slots, torch.ones(len(slots)))


def bits(count: int, generator: Generator) -> Tensor:
    return torch.randint(BITS, (count,), generator=generator)


def uniforms(shape: Sequence[int], generator: Generator) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def recent_slots(noise: Tensor, order: Order, window: int) -> Tensor:
    return order.slots(noise % min(max(window, 1), order.size))


class Uniform:
    """And what the other strategies change in it.

    All randomness is in `noise`; `sample` is a function of state, noise, order and clock.
    """

    is_uniform: ClassVar[bool] = True  # the library draws such batches itself
    needs_errors: ClassVar[bool] = False
    has_huber_loss: ClassVar[bool] = False  # in place of the critics' squares

    def __init__(self, config: Any, capacity: int) -> None:
        self.config, self.capacity = config, capacity
        self.trace: dict[str, Any] = {}

    def add(self, slots: Tensor, updates: int) -> None:
        """Slots that now hold what is new and can be drawn; `updates` will follow."""

    def remove(self, slots: Tensor) -> None:
        """Slots that can no longer be drawn."""

    def noise(self, count: int, generator: Generator) -> Any:
        return bits(count, generator)

    def sample(self, noise: Any, order: Order, clock: Clock) -> Draw:
        return unit(recent_slots(noise, order, order.size))

    def feedback(self, slots: Tensor, td_errors: Tensor) -> None:
        """TD errors [critics, B] of what was drawn."""

    def emphasis(self, td_errors: Tensor) -> Tensor:
        """What multiplies each critic's losses [critics, B]."""
        return torch.ones_like(td_errors)

    def metrics(self) -> dict[str, float]:
        """Of the last sample."""
        return {name: float(value) for name, value in self.trace.items()}

    def state_dict(self) -> dict[str, Any]:
        """Plain tensors and numbers."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
