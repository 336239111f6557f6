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
    # Rows come many at a time. Each has its turn in the updates that follow, the newest first and
    # again when all had theirs; so none is passed over where there are as many updates as steps.
    added: Array  # [] rows that came last
    turn: Array  # [] updates since then


def make_cer(config: CerConfig, context: ReplayContext) -> Replay:
    def add(state: CerState, rows: Array) -> CerState:
        return CerState(add_rows(state.ring, rows), jnp.int32(rows.shape[0]), jnp.int32(0))

    def sample(state: CerState, bits: Array, clock: Clock) -> tuple[CerState, Sample, Trace]:
        ring, added, turn = state
        age = (turn / context.updates_per_env_step).astype(jnp.int32)
        newest = aged_slots(ring, jnp.where(age < added, age, 0))
        slots = recent_slots(bits, ring, ring.size).at[0].set(newest)
        return CerState(ring, added, turn + 1), unit_sample(ring, slots, context.spec), {}

    return Replay(
        init=lambda key: CerState(context.empty_ring(), added=jnp.int32(0), turn=jnp.int32(0)),
        add=add,
        draw=lambda key: draw_bits(key, context.batch_size),
        sample=sample,
        feedback=no_feedback,
        ring=lambda state: state.ring,
    )
