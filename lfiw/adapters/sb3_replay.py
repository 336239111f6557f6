"""What is drawn from Stable-Baselines3's replay buffers, for its agents and SBX's.

A slot is a row and an environment. Samples are made by the buffer itself, so that they are
normalised, stacked and relabelled as ever.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from lfiw.adapters.drawing import Order, Uniform
from lfiw.adapters.strategies import Draws
from lfiw.replay import REPLAYS
from lfiw.settings import from_json, to_json


@contextmanager
def numpy_seed(seed: int) -> Iterator[None]:
    """Buffers draw from numpy's global generator, which must then go on as if untouched."""
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)


def draw_recent(buffer: ReplayBuffer, count: int, fast_size: int, env: Any) -> Any:
    """`count` samples of the newest `fast_size` transitions. Rows hold one per environment."""
    window = min(buffer.size(), max(1, fast_size // buffer.n_envs))
    if isinstance(buffer, HerReplayBuffer):
        with only_recent_episodes(buffer, window):
            return buffer.sample(count, env=env)
    ages = np.random.randint(window, size=count)
    return buffer._get_samples((buffer.pos - 1 - ages) % buffer.buffer_size, env=env)


@contextmanager
def only_recent_episodes(buffer: HerReplayBuffer, window: int) -> Iterator[None]:
    """Hide older rows. An episode can be drawn once it is over: where none of the window is,
    the window grows until it holds some."""
    lengths = buffer.ep_length
    recent = np.zeros_like(lengths)
    while not recent.any() and window <= 2 * buffer.buffer_size:
        rows = (buffer.pos - 1 - np.arange(min(window, buffer.buffer_size))) % buffer.buffer_size
        recent[rows] = lengths[rows]
        window *= 2
    buffer.ep_length = recent
    try:
        yield
    finally:
        buffer.ep_length = lengths


def num_slots(buffer: ReplayBuffer) -> int:
    return buffer.buffer_size * buffer.n_envs


def drawable(buffer: ReplayBuffer) -> Order:
    """The slots that the buffer itself would draw from."""
    capacity, head = num_slots(buffer), buffer.pos * buffer.n_envs
    if isinstance(buffer, HerReplayBuffer):
        over = buffer.ep_length.reshape(-1) > 0
        oldest_first = [head + np.flatnonzero(over[head:]), np.flatnonzero(over[:head])]
        listed = torch.from_numpy(np.concatenate(oldest_first))
        return Order(capacity, head, len(listed), listed)
    # Where an observation is stored once, the oldest row has lost its own to the newest.
    lost = buffer.optimize_memory_usage and buffer.full
    return Order(capacity, head, (buffer.size() - lost) * buffer.n_envs)


def samples_at(buffer: ReplayBuffer, slots: np.ndarray, env: Any) -> Any:
    """The buffer's samples of these slots, in their order."""
    rows, envs = np.divmod(slots, buffer.n_envs)
    if isinstance(buffer, HerReplayBuffer):
        num_real = len(slots) - int(buffer.her_ratio * len(slots))
        real, relabelled = slice(num_real), slice(num_real, None)
        return joined(
            [
                buffer._get_real_samples(rows[real], envs[real], env),
                buffer._get_virtual_samples(rows[relabelled], envs[relabelled], env),
            ]
        )
    if buffer.n_envs == 1:
        return buffer._get_samples(rows, env=env)
    # The buffer chooses environments by itself: each time it is given one alone.
    parts = [
        of_environment(buffer, index)._get_samples(rows[envs == index], env=env)
        for index in np.unique(envs)
    ]
    places = torch.from_numpy(np.argsort(np.argsort(envs, kind="stable")))
    return joined(parts, places.to(buffer.device))


def of_environment(buffer: ReplayBuffer, index: int) -> ReplayBuffer:
    """A buffer over the same memory, for one of its environments."""

    def part(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: part(own) for key, own in value.items()}
        if isinstance(value, np.ndarray) and value.shape[:2] == shape:
            return value[:, index : index + 1]
        return value

    shape = (buffer.buffer_size, buffer.n_envs)
    alone = copy.copy(buffer)
    alone.__dict__ = {name: part(value) for name, value in vars(buffer).items()}
    alone.n_envs = 1
    return alone


def joined(parts: Sequence[Any], places: Any = slice(None)) -> Any:
    """Samples one after the other, then reordered."""

    def join(values: Sequence[Any]) -> Any:
        if isinstance(values[0], dict):
            return {key: join([own[key] for own in values]) for key in values[0]}
        return None if values[0] is None else torch.cat(values)[places]

    return type(parts[0])(*map(join, zip(*parts, strict=True)))


def row_checksum(buffer: ReplayBuffer, row: int) -> int:
    """Of what stays as it was stored: rewards may be relabelled, and ends set, later."""
    obs = buffer.observations
    checksum = 0
    for part in (*(obs.values() if isinstance(obs, dict) else [obs]), buffer.actions):
        checksum = zlib.crc32(part[row].tobytes(), checksum)
    return checksum


class Drawn(NamedTuple):
    samples: Any
    slots: torch.Tensor | None  # None: not needed
    weights: torch.Tensor


class BufferDraws(Draws):
    """Draws from a buffer, which is looked at before: what is new in it, and what is gone?"""

    def __init__(self, strategy: Uniform, seed: int) -> None:
        super().__init__(strategy, seed)
        self.pos, self.size = 0, 0  # of the buffer's rows, when it was last looked at
        self.newest: int | None = None  # checksum of the newest row then; None: not known
        self.drawable: torch.Tensor | None = None  # [slots] then, where HER chooses them
        self.new_rows = 0  # since then, as far as the agent itself added them

    def sample(
        self,
        buffer: ReplayBuffer,
        batch_sizes: Sequence[int],
        env: Any,
        updates: int,
        progress: float,
    ) -> Drawn:
        """One batch after the other; `updates` of them will come before the next step."""
        order = drawable(buffer)
        if self.strategy.is_uniform or not order.size:  # the buffer says why it cannot
            samples = buffer.sample(sum(batch_sizes), env=env)
            return Drawn(samples, None, torch.ones(sum(batch_sizes), device=buffer.device))
        self.look(buffer, order, updates)
        draws = [self.draw(count, order, progress) for count in batch_sizes]
        samples = [samples_at(buffer, draw.slots.numpy(), env) for draw in draws]
        slots, weights = map(torch.cat, zip(*draws, strict=True))
        together = samples[0] if len(samples) == 1 else joined(samples)
        return Drawn(together, slots, weights.to(buffer.device))

    def look(self, buffer: ReplayBuffer, order: Order, updates: int) -> None:
        if self.is_other(buffer):
            self.strategy.remove(torch.arange(self.strategy.capacity))
            self.pos, self.size, self.drawable = 0, 0, None
        written = self.written(buffer)
        if order.listed is None:
            ages = (order.head - 1 - written) % order.capacity
            entering = written[ages < order.size]
            past = torch.arange(order.size, min(order.size + len(written), order.capacity))
            leaving = order.slots(past)
        else:
            now = torch.zeros(order.capacity, dtype=torch.bool)
            now[order.listed] = True
            before = torch.zeros_like(now) if self.drawable is None else self.drawable
            leaving = torch.nonzero(before & ~now)[:, 0]
            before[written] = False
            entering = torch.nonzero(now & ~before)[:, 0]
            self.drawable = now
        self.strategy.remove(leaving)
        self.strategy.add(entering, updates)

    def is_other(self, buffer: ReplayBuffer) -> bool:
        """Another buffer than at the last look, an emptied one, or one written all over: the
        newest row is the last to be overwritten."""
        if not self.size:
            return False
        if buffer.size() < self.size:
            return True
        return self.newest is not None and row_checksum(buffer, self.pos - 1) != self.newest

    def written(self, buffer: ReplayBuffer) -> torch.Tensor:
        """The slots that were written since the last call, oldest first."""
        rows = (buffer.pos - self.pos) % buffer.buffer_size
        filled_up = self.size < buffer.size() == buffer.buffer_size and buffer.pos >= self.pos
        if filled_up or self.new_rows >= buffer.buffer_size:
            rows = buffer.buffer_size
        self.pos, self.size, self.new_rows = buffer.pos, buffer.size(), 0
        self.newest = row_checksum(buffer, buffer.pos - 1)
        count = rows * buffer.n_envs
        return (buffer.pos * buffer.n_envs - count + torch.arange(count)) % num_slots(buffer)

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "settings": to_json(self.strategy.config),
            "capacity": self.strategy.capacity,
            "pos": self.pos,
            "size": self.size,
            "newest": self.newest,
            "drawable": self.drawable,
        }

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> None:
        """A state of another strategy, or for a buffer of another size, is left out."""
        if state["capacity"] == self.strategy.capacity and self.is_own(state):
            super().load_state_dict(state, strict)
            self.pos, self.size = state["pos"], state["size"]
            self.newest, self.drawable = state.get("newest"), state["drawable"]

    def is_own(self, state: dict[str, Any]) -> bool:
        """Whether a state is of this strategy with these settings."""
        config = self.strategy.config
        if "settings" not in state:  # of a file from before they were recorded
            return bool(state["strategy"].keys() == self.strategy.state_dict().keys())
        settings = state["settings"]
        if settings["name"] != config.name:
            return False
        return bool(from_json(REPLAYS[config.name], settings) == config)
