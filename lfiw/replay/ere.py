"""Emphasizing recent experience (Wang and Ross, 2019): the window of slots that updates
draw from shrinks towards the newest within each cycle of updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from lfiw.replay.base import Replay, ReplayContext, no_feedback
from lfiw.replay.ring import Ring, add_rows, draw_bits, recent_slots, unit_sample
from lfiw.settings import setting
from lfiw.types import Clock, Sample, Trace, anneal


@dataclass(frozen=True)
class EreConfig:
    """Draws from windows of the newest that shrink in cycles (Wang and Ross, 2019)."""

    name: ClassVar[str] = "ere"
    # Wang and Ross, 2019
    eta: float = setting(0.996, "shrinking of the window at first", above=0, at_most=1)
    eta_end: float = setting(1.0, "the same at the schedule's end", above=0, at_most=1)
    min_window: int = setting(5000, "smallest window", at_least=1, traced=True)
    # Deviation: the original's cycle is an episode; a fixed one does not degenerate with
    # short phases.
    cycle_updates: int = setting(
        1000, "updates from the widest window to the narrowest", at_least=1, traced=True
    )

    @classmethod
    def paper(cls) -> EreConfig:
        return cls()


def ere_window(config: EreConfig, context: ReplayContext, clock: Clock) -> Array:
    """c_k = max(N eta^(1000 k / K), c_min) for update k = 1..K of the cycle."""
    eta = anneal(config.eta, config.eta_end, clock)
    position = (clock.updates % config.cycle_updates + 1) / config.cycle_updates
    window = context.buffer_size * eta ** (1000 * position)
    return jnp.maximum(window, config.min_window)


def make_ere(config: EreConfig, context: ReplayContext) -> Replay:
    def sample(ring: Ring, bits: Array, clock: Clock) -> tuple[Ring, Sample, Trace]:
        window = jnp.minimum(ere_window(config, context, clock), ring.size)
        slots = recent_slots(bits, ring, window)
        return ring, unit_sample(ring, slots, context.spec), {"window": window}

    return Replay(
        init=lambda key: context.empty_ring(),
        add=add_rows,
        draw=lambda key: draw_bits(key, context.batch_size),
        sample=sample,
        feedback=no_feedback,
    )
