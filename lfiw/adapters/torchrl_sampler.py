"""The strategies as a sampler of TorchRL's replay buffers."""

from __future__ import annotations

from pathlib import Path
from threading import RLock
from typing import Any

import torch
from torchrl.data.replay_buffers import Sampler

from lfiw.adapters.drawing import Order
from lfiw.adapters.strategies import Draws, as_replay, make_strategy
from lfiw.errors import InputError, RunError
from lfiw.settings import to_json

PATIENCE = 100  # batches that may be drawn before their TD errors must have come
STATE = "replay_sampler.pt"


class ReplaySampler(Sampler):
    """Draws from a storage that is written round and round; weights are `priority_weight`.

    `progress`, from 0 to 1, is the user's to set where settings are annealed.

    Args:
        replay: The name of a strategy, or its config.
        seed: Of its own random generator.
    """

    def __init__(self, replay: Any, *, seed: int = 0) -> None:
        self.config = as_replay(replay)
        if self.config.name in ("lfiw", "pal"):
            way = {
                "lfiw": "it weights what is drawn: give the buffer transform=LfiwWeights()",
                "pal": "it changes the loss alone, and TorchRL's losses show no way in",
            }
            raise InputError(f"{self.config.name!r} is no sampler: {way[self.config.name]}.")
        self.seed, self.progress = seed, 0.0
        self.draws: Draws | None = None  # sized by the storage
        self.head = self.num_written = 0
        self.waiting: list[torch.Tensor] = []  # slots that the strategy has not heard of
        self.missing = 0  # batches whose TD errors did not come
        self.lock = RLock()  # buffers that prefetch draw in threads of their own

    def add(self, index: Any) -> None:
        self.extend(torch.as_tensor([index]))

    def extend(self, index: Any) -> None:
        if not isinstance(index, torch.Tensor) or index.dim() > 1:
            raise InputError("ReplaySampler draws from storages of one axis; flatten what you add.")
        slots = index.reshape(-1).cpu()
        with self.lock:
            self.waiting.append(slots)
            self.num_written += len(slots)
            self.head = int(slots[-1]) + 1

    def sample(self, storage: Any, batch_size: int) -> tuple[torch.Tensor, dict[str, Any]]:
        if not len(storage):
            raise InputError("The storage is empty: add transitions before drawing some.")
        with self.lock:
            if self.draws is None:
                self.draws = self._make(storage.max_size)
            order = self._listen(self.draws, len(storage), storage.max_size)
            self._expect_errors(self.draws)
            slots, weights = self.draws.draw(batch_size, order, self.progress)
        return slots, {"priority_weight": weights}

    def _make(self, capacity: int) -> Draws:
        return Draws(make_strategy(self.config, capacity), self.seed)

    def _listen(self, draws: Draws, size: int, capacity: int) -> Order:
        """Tell the strategy what was written, or of all slots where it has not seen them come."""
        known = self.num_written >= size
        written = torch.cat([torch.empty(0, dtype=torch.int64), *self.waiting])[-capacity:]
        if not known:
            self.num_written, self.head = size, self.head or size
        count = len(written) if known else size
        ring = (self.head - count + torch.arange(count)) % capacity
        if known and not torch.equal(written, ring):
            raise InputError("ReplaySampler needs storage that is written round and round.")
        draws.strategy.add(ring, updates=count)
        self.waiting = []
        return Order(capacity, self.head % capacity, size)

    def _expect_errors(self, draws: Draws) -> None:
        if draws.strategy.needs_errors:
            self.missing += 1
            if self.missing > PATIENCE:
                raise RunError(
                    f"{PATIENCE} batches were drawn and no TD errors came back: after the loss, "
                    f'call buffer.update_priority(batch["index"], batch["td_error"]).'
                )

    @torch.no_grad()
    def update_priority(self, index: Any, priority: Any, *, storage: Any = None) -> None:
        """`priority` are absolute TD errors; their powers are the strategy's matter."""
        with self.lock:
            if self.draws is None or not self.draws.strategy.needs_errors:
                return
            slots = torch.as_tensor(index).reshape(-1).cpu()
            errors = torch.as_tensor(priority).reshape(-1).cpu().expand(len(slots))
            self.draws.strategy.feedback(slots, errors[None])
            self.missing = 0

    def metrics(self) -> dict[str, float]:
        """Of the last draw; empty before the first."""
        return {} if self.draws is None else self.draws.strategy.metrics()

    def _empty(self) -> None:
        with self.lock:
            self.draws, self.waiting, self.head, self.num_written = None, [], 0, 0

    def state_dict(self) -> dict[str, Any]:
        with self.lock:
            state: dict[str, Any] = {"head": self.head, "num_written": self.num_written}
            state |= {"settings": to_json(self.config), "waiting": list(self.waiting)}
            if self.draws is not None:
                state["draws"] = self.draws.state_dict()
                state["capacity"] = self.draws.strategy.capacity
            return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if state_dict["settings"] != to_json(self.config):
            raise InputError(f"This state is of {state_dict['settings']}, not of {self.config}.")
        with self.lock:
            self.head, self.num_written = state_dict["head"], state_dict["num_written"]
            self.waiting, self.draws = list(state_dict["waiting"]), None
            if "draws" in state_dict:
                self.draws = self._make(state_dict["capacity"])
                self.draws.load_state_dict(state_dict["draws"])

    def dumps(self, path: Any) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)
        torch.save(self.state_dict(), Path(path) / STATE)

    def loads(self, path: Any) -> None:
        self.load_state_dict(torch.load(Path(path) / STATE, weights_only=True))
