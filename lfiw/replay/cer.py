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
    name: ClassVar[str] = "cer"

    @classmethod
    def paper(cls) -> CerConfig:
        return cls()  # not in the paper


class CerState(NamedTuple):
    ring: Ring
    # [] of the last rows, how many no batch had as its newest yet. Rows come many at a time, and
    # each gets its turn, as if updates followed every step.
    waiting: Array


def make_cer(config: CerConfig, context: ReplayContext) -> Replay:
    def add(state: CerState, rows: Array) -> CerState:
        return CerState(add_rows(state.ring, rows), jnp.int32(rows.shape[0]))

    def sample(state: CerState, bits: Array, clock: Clock) -> tuple[CerState, Sample, Trace]:
        ring, waiting = state
        newest = aged_slots(ring, jnp.maximum(waiting - 1, 0))
        slots = recent_slots(bits, ring, ring.size).at[0].set(newest)
        drawn = unit_sample(ring, slots, context.spec)
        return CerState(ring, jnp.maximum(waiting - 1, 0)), drawn, {}

    return Replay(
        init=lambda key: CerState(context.empty_ring(), jnp.zeros((), jnp.int32)),
        add=add,
        draw=lambda key: draw_bits(key, context.batch_size),
        sample=sample,
        feedback=no_feedback,
        ring=lambda state: state.ring,
    )
