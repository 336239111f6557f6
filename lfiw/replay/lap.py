"""LAP, loss-adjusted prioritised replay (Fujimoto et al., 2020): draws in proportion to
max(|TD error|, 1)^alpha without correction; the Huber loss makes up for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from lfiw.replay.base import HUBER, Replay, ReplayContext
from lfiw.replay.priorities import (
    Prioritised,
    add_at_maximum,
    init_prioritised,
    larger_error,
    prioritise,
)
from lfiw.replay.ring import unit_sample
from lfiw.replay.sum_tree import find_slots, tree_noise
from lfiw.settings import setting
from lfiw.types import Clock, Sample, Trace

MIN_ERROR = 1.0  # smaller errors count as this one: there the Huber loss is quadratic


@dataclass(frozen=True)
class LapConfig:
    """Large TD errors are drawn more often, with Huber's loss (Fujimoto et al., 2020)."""

    name: ClassVar[str] = "lap"
    # its authors' code
    alpha: float = setting(0.4, "how much priorities count", at_least=0, at_most=1)

    @classmethod
    def paper(cls) -> LapConfig:
        return cls()  # not in the paper


def lap_priorities(errors: Array, alpha: float) -> Array:
    return jnp.maximum(errors, MIN_ERROR) ** alpha


def make_lap(config: LapConfig, context: ReplayContext) -> Replay:
    def sample(
        state: Prioritised, uniforms: Array, clock: Clock
    ) -> tuple[Prioritised, Sample, Trace]:
        slots = find_slots(state.tree, uniforms)
        return state, unit_sample(state.ring, slots, context.spec), {}

    def feedback(state: Prioritised, sample: Sample, td_errors: Array) -> Prioritised:
        return prioritise(
            state, sample.slots, lap_priorities(larger_error(td_errors), config.alpha)
        )

    return Replay(
        init=lambda key: init_prioritised(context),
        add=add_at_maximum,
        draw=lambda key: tree_noise(key, context.batch_size),
        sample=sample,
        feedback=feedback,
        ring=lambda state: state.ring,
        td_loss=HUBER,
    )
