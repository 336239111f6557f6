"""Emphasizing recent experience (Wang and Ross, 2019): the window of slots that updates
draw from shrinks towards the newest within each cycle of updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from lfiw.replay.base import Replay, ReplayContext, anneal, no_feedback
from lfiw.replay.ring import Ring, add_rows, draw_recent, init_ring, unit_sample
from lfiw.settings import setting
from lfiw.types import Clock, Metrics, Sample


@dataclass(frozen=True)
class EreConfig:
    name: ClassVar[str] = "ere"
    eta: float = setting(0.996, above=0, at_most=1)  # Wang and Ross, 2019
    eta_end: float = setting(1.0, above=0, at_most=1)  # Wang and Ross, 2019
    min_window: int = setting(5000, at_least=1, traced=True)  # Wang and Ross, 2019
    # Deviation: the original's cycle is an episode; a fixed one does not degenerate with
    # short phases.
    cycle_updates: int = setting(1000, at_least=1, traced=True)

    @classmethod
    def paper(cls) -> EreConfig:
        return cls()


def ere_window(config: EreConfig, context: ReplayContext, clock: Clock) -> Array:
    """c_k = max(N eta^(1000 k / K), c_min) for update k = 1..K of the cycle."""
    eta = anneal(config.eta, config.eta_end, clock, context.schedule_env_steps)
    position = (clock.updates % config.cycle_updates + 1) / config.cycle_updates
    window = context.buffer_size * eta ** (1000 * position)
    return jnp.maximum(window, config.min_window)


def make_ere(config: EreConfig, context: ReplayContext) -> Replay:
    def sample(ring: Ring, key: Array, clock: Clock) -> tuple[Ring, Sample, Metrics]:
        window = jnp.minimum(ere_window(config, context, clock), ring.size)
        slots = draw_recent(key, ring, window, context.batch_size)
        return ring, unit_sample(ring, slots, context.spec), {"window": window}

    return Replay(
        init=lambda key: init_ring(context.capacity, context.spec),
        add=add_rows,
        sample=sample,
        feedback=no_feedback,
    )
