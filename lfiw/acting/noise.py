"""Exploration noise, which may be held for several steps (FlashSAC; Dabney et al., 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

EXPONENT = 2.0  # of the zeta distribution of how long noise is held; FlashSAC's code


class Held(NamedTuple):
    """The noise of the last step, and for how many more it is held."""

    noise: np.ndarray  # [A]
    steps: int


def nothing_held(size: int) -> Held:
    return Held(np.zeros(size, np.float32), 0)


def draw_noise(
    rng: np.random.Generator, count: int, most: int, held: Held
) -> tuple[np.ndarray, Held]:
    """Standard normal noise [count, A], each held for up to `most` steps, and what is held after
    it."""
    size = len(held.noise)
    if most == 1:
        return rng.standard_normal((count, size), np.float32), nothing_held(size)
    noise = np.empty((count, size), np.float32)
    taken = 0
    while taken < count:
        if not held.steps:
            steps = 1 + int(np.searchsorted(chances(most), rng.random(), side="right"))
            held = Held(rng.standard_normal(size, np.float32), steps)
        used = min(held.steps, count - taken)
        noise[taken : taken + used] = held.noise
        held = held._replace(steps=held.steps - used)
        taken += used
    return noise, held


@cache
def chances(most: int) -> np.ndarray:
    """Of at most 1, 2, ... steps."""
    masses = np.arange(1, most + 1) ** -EXPONENT
    cumulated = np.cumsum(masses) / np.sum(masses)
    cumulated[-1] = 1.0
    return cumulated


def held_facts(held: Held) -> dict[str, Any]:
    """As JSON, without a loss: a float64 has every float32."""
    return {"noise": held.noise.tolist(), "steps": held.steps}


def held_of(facts: Mapping[str, Any] | None, size: int) -> Held:
    """Of a checkpoint; older ones know nothing of it."""
    if facts is None:
        return nothing_held(size)
    noise, steps = np.array(facts["noise"], np.float32), int(facts["steps"])
    if noise.shape != (size,) or steps < 0:
        raise ValueError(f"noise of shape {noise.shape} is held for {steps} steps")
    return Held(noise, steps)
