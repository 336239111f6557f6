"""The strategies that learn of TD errors, in torch: the twins of those in `lfiw.replay`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from lfiw.adapters.drawing import Draw, Order, Uniform, uniforms, unit
from lfiw.adapters.sum_tree import SumTree
from lfiw.replay.lap import MIN_ERROR
from lfiw.replay.priorities import MAX_ERROR
from lfiw.replay.sum_tree import LEVELS
from lfiw.types import Clock, anneal


def larger_error(td_errors: Tensor) -> Tensor:
    """The largest of the critics' absolute errors [critics, B]; finite."""
    errors = td_errors.abs().amax(dim=0)
    return errors.nan_to_num(nan=0.0, posinf=MAX_ERROR).clamp(max=MAX_ERROR)


class Prioritised(Uniform):
    """Draws in proportion to priorities; what is new enters with the largest so far."""

    is_uniform = False
    needs_errors = True

    def __init__(self, config: Any, capacity: int) -> None:
        super().__init__(config, capacity)
        self.max_priority = 1.0
        self.tree = SumTree(torch.zeros(capacity, dtype=torch.float64))

    def priorities(self, errors: Tensor) -> Tensor:
        raise NotImplementedError

    def add(self, slots: Tensor, updates: int) -> None:
        self.tree.set(slots, torch.full((len(slots),), self.max_priority, dtype=torch.float64))

    def remove(self, slots: Tensor) -> None:
        self.tree.set(slots, torch.zeros(len(slots), dtype=torch.float64))

    def noise(self, count: int, generator: Generator) -> Tensor:
        return uniforms((LEVELS, count), generator)

    def sample(self, noise: Any, order: Order, clock: Clock) -> Draw:
        self.trace = {"mean_priority": self.tree.total() / order.size}
        return unit(self.find(noise, order))

    def find(self, noise: Any, order: Order) -> Tensor:
        return self.tree.find(noise)

    def feedback(self, slots: Tensor, td_errors: Tensor) -> None:
        self.prioritise(slots, self.priorities(larger_error(td_errors).cpu().double()))

    def prioritise(self, slots: Tensor, priorities: Tensor) -> None:
        self.tree.set(slots, priorities)
        self.max_priority = max(self.max_priority, priorities.max().item())

    def metrics(self) -> dict[str, float]:
        return {**super().metrics(), "max_priority": self.max_priority}

    def state_dict(self) -> dict[str, Any]:
        return {"priorities": self.tree.leaves.clone(), "max_priority": self.max_priority}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tree = SumTree(state["priorities"].cpu())
        self.max_priority = state["max_priority"]


def importance_weights(probabilities: Tensor, size: int, beta: float) -> Tensor:
    """(N P(i))^-beta, divided by the largest of the batch."""
    log_weights = -beta * torch.log(size * probabilities)
    return torch.exp(log_weights - log_weights.max()).float()


class Per(Prioritised):
    def priorities(self, errors: Tensor) -> Tensor:
        return (errors + self.config.epsilon) ** self.config.alpha

    def sample(self, noise: Tensor, order: Order, clock: Clock) -> Draw:
        slots = super().sample(noise, order, clock).slots
        probabilities = self.tree.leaves[slots] / self.tree.total()
        beta = float(anneal(self.config.beta, self.config.beta_end, clock))
        weights = importance_weights(probabilities, order.size, beta)
        self.trace |= {"beta": beta, "is_weight_mean": weights.mean()}
        return Draw(slots, weights)


def lap_priorities(errors: Tensor, alpha: float) -> Tensor:
    return errors.clamp(min=MIN_ERROR) ** alpha


class Lap(Prioritised):
    has_huber_loss = True

    def priorities(self, errors: Tensor) -> Tensor:
        return lap_priorities(errors, self.config.alpha)


class FadedPer(Lap):
    def noise(self, count: int, generator: Generator) -> Tensor:
        return uniforms((1 + LEVELS, count), generator)

    def find(self, noise: Tensor, order: Order) -> Tensor:
        """The floor's share of all priorities, or what the newest have above it."""
        config = self.config
        fading = torch.arange(min(config.fade_steps, order.size))
        slots = order.slots(fading)
        above_floor = config.floor ** (fading.double() / config.fade_steps) - config.floor
        newest = SumTree(self.tree.leaves[slots] * above_floor)
        floor_mass, newest_mass = config.floor * self.tree.total(), newest.total()
        part, places = noise[0], noise[1:]
        at_floor = self.tree.find(places)
        if newest_mass == 0:  # a floor of 1
            return at_floor
        is_at_floor = part * (floor_mass + newest_mass) < floor_mass
        return torch.where(is_at_floor, at_floor, slots[newest.find(places)])


class Pal(Uniform):
    needs_errors = True
    has_huber_loss = True

    def emphasis(self, td_errors: Tensor) -> Tensor:
        alpha = self.config.alpha
        mean = lap_priorities(larger_error(td_errors), alpha).mean()
        each = lap_priorities(larger_error(td_errors[None]), alpha)
        return each / mean
