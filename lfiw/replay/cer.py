"""Combined experience replay (Zhang and Sutton, 2017): uniform replay, and in every batch the
newest transition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from lfiw.replay.base import Replay, ReplayContext, no_feedback
from lfiw.replay.ring import (
    Ring,
    add_rows,
    aged_slots,
    draw_bits,
    recent_slots,
    unit_sample,
)
from lfiw.types import Clock, Sample, Trace


@dataclass(frozen=True)
class CerConfig:
    """Uniform, and the newest is in every batch (Zhang and Sutton, 2017); no settings."""

    name: ClassVar[str] = "cer"

    @classmethod
    def paper(cls) -> CerConfig:
        return cls()  # not in the paper


class CerState(NamedTuple):
    ring: Ring
    # [] updates that the last rows still bring. Rows come many at a time, and each has its turn as
    # the newest, as if updates followed every step.
    waiting: Array


def make_cer(config: CerConfig, context: ReplayContext) -> Replay:
    def add(state: CerState, rows: Array) -> CerState:
        updates = round(rows.shape[0] * context.updates_per_env_step)
        return CerState(add_rows(state.ring, rows), jnp.int32(updates))

    def sample(state: CerState, bits: Array, clock: Clock) -> tuple[CerState, Sample, Trace]:
        ring, waiting = state
        left = jnp.maximum(waiting - 1, 0)
        newest = aged_slots(ring, (left / context.updates_per_env_step).astype(jnp.int32))
        slots = recent_slots(bits, ring, ring.size).at[0].set(newest)
        return CerState(ring, left), unit_sample(ring, slots, context.spec), {}

    return Replay(
        init=lambda key: CerState(context.empty_ring(), jnp.zeros((), jnp.int32)),
        add=add,
        draw=lambda key: draw_bits(key, context.batch_size),
        sample=sample,
        feedback=no_feedback,
        ring=lambda state: state.ring,
    )
