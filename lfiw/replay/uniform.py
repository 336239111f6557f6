"""Uniform replay: every stored transition is equally likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jax import Array

from lfiw.replay.base import Replay, ReplayContext, no_feedback
from lfiw.replay.ring import Ring, add_rows, draw_bits, recent_slots, unit_sample
from lfiw.types import Clock, Sample, Trace


@dataclass(frozen=True)
class UniformConfig:
    """Every stored transition is as likely; no settings."""

    name: ClassVar[str] = "uniform"

    @classmethod
    def paper(cls) -> UniformConfig:
        return cls()


def make_uniform(config: UniformConfig, context: ReplayContext) -> Replay:
    def sample(ring: Ring, bits: Array, clock: Clock) -> tuple[Ring, Sample, Trace]:
        slots = recent_slots(bits, ring, ring.size)
        return ring, unit_sample(ring, slots, context.spec), {}

    return Replay(
        init=lambda key: context.empty_ring(),
        add=add_rows,
        draw=lambda key: draw_bits(key, context.batch_size),
        sample=sample,
        feedback=no_feedback,
        is_uniform=True,
    )
