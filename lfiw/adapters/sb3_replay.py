"""The newest transitions of Stable-Baselines3's replay buffers, for its agents and SBX's.

They are drawn by the buffer itself, so that they are normalised, stacked and relabelled just
like the batch that they are compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer


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
