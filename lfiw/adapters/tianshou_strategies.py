"""The strategies that fit Tianshou, as replay buffers of it: its critics learn by weighted squares,
and report their TD errors to the buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tianshou.data import ReplayBuffer, VectorReplayBuffer

from lfiw.adapters.drawing import Order
from lfiw.adapters.strategies import STRATEGIES, Draws, as_replay, make_strategy
from lfiw.errors import InputError


def fitting(replay: Any) -> Any:
    config = as_replay(replay)
    fit = [name for name, kind in STRATEGIES.items() if not kind.has_huber_loss]
    if config.name == "lfiw":
        raise InputError("LFIW has buffers of its own: LfiwReplayBuffer, LfiwVectorReplayBuffer.")
    if config.name not in fit:
        raise InputError(
            f"{config.name!r} replaces the critics' squared loss, which is fixed in Tianshou: "
            f"replay may be {', '.join(fit)}."
        )
    return config


class InsertionOrder:
    """The slots of a buffer in the order in which they were written; parts of it may be written
    at different rates."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.log = np.zeros(2 * capacity, np.int64)  # slots; what was overwritten since is stale
        self.place = np.full(capacity, -1)  # of each slot's last entry in the log
        self.start = self.end = 0  # no entry before `start` is alive

    def write(self, slots: np.ndarray) -> None:
        for slot in slots:
            if self.end == len(self.log):
                self._compact()
            self.log[self.end] = slot
            self.place[slot] = self.end
            self.end += 1
        while self.start < self.end and not self._alive(self.start, self.start + 1)[0]:
            self.start += 1

    def order(self, size: int) -> Order:
        if self.end - self.start != size:
            self._compact()
        listed = torch.from_numpy(self.log[self.start : self.end])
        return Order(self.capacity, 0, len(listed), listed)

    def _alive(self, start: int, end: int) -> np.ndarray:
        return self.place[self.log[start:end]] == np.arange(start, end)

    def _compact(self) -> None:
        alive = self.log[self.start : self.end][self._alive(self.start, self.end)]
        self.start, self.end = 0, len(alive)
        self.log[: self.end] = alive
        self.place[alive] = np.arange(self.end)


class Drawing(ReplayBuffer):
    """Mixed in before a buffer's class. `progress`, from 0 to 1, is the user's to set where
    settings are annealed."""

    def __init__(self, *args: Any, replay: Any, seed: int = 0, **kwargs: Any) -> None:
        config = fitting(replay)
        super().__init__(*args, **kwargs)
        if self.stack_num != 1 or self._sample_avail:
            raise InputError("Strategies draw single transitions: leave out stack_num.")
        self.draws = Draws(make_strategy(config, self.maxsize), seed)
        self.insertion = InsertionOrder(self.maxsize)
        self.new_slots: list[np.ndarray] = []  # of which the strategy has not heard
        self.progress = 0.0

    def add(self, *args: Any, **kwargs: Any) -> Any:
        slots, *rest = super().add(*args, **kwargs)
        self._remember(slots)
        return slots, *rest

    def update(self, buffer: ReplayBuffer) -> np.ndarray:
        slots = super().update(buffer)
        self._remember(slots)
        return slots

    def _remember(self, slots: np.ndarray) -> None:
        self.insertion.write(slots)
        self.new_slots.append(slots)

    def reset(self, keep_statistics: bool = False) -> None:
        super().reset(keep_statistics)
        if "draws" in vars(self):  # the library may reset before this class is set up
            self.insertion, self.new_slots = InsertionOrder(self.maxsize), []
            self.draws.strategy.remove(torch.arange(self.maxsize))

    def sample(self, batch_size: int | None) -> tuple[Any, np.ndarray]:
        if not batch_size:
            raise InputError(
                "A strategy draws minibatches for an off-policy agent; this agent asks for the "
                "whole buffer, as PPO and other on-policy agents do."
            )
        if not len(self):
            raise InputError("The buffer is empty: add transitions before drawing some.")
        if self.new_slots:
            slots = torch.as_tensor(np.concatenate(self.new_slots))
            self.draws.strategy.add(slots, updates=len(slots))
            self.new_slots = []
        order = self.insertion.order(len(self))
        slots, weights = self.draws.draw(batch_size, order, self.progress)
        batch = self[slots.numpy()]
        batch.weight = weights.numpy()
        return batch, slots.numpy()

    def update_weight(self, index: np.ndarray, new_weight: Any) -> None:
        """TD errors, as the library's agents leave them in `batch.weight`."""
        errors = torch.as_tensor(new_weight).detach().reshape(1, -1).cpu()
        self.draws.strategy.feedback(torch.as_tensor(index), errors)


class StrategyReplayBuffer(Drawing, ReplayBuffer):
    """`ReplayBuffer(size, ...)` for one environment, whose batches a strategy draws.

    Also takes `replay`, a name or a config, and `seed`. Set `progress`, from 0 to 1, where settings
    are annealed.
    """


class StrategyVectorReplayBuffer(Drawing, VectorReplayBuffer):
    """`VectorReplayBuffer(total_size, buffer_num, ...)` for several; else as above."""
