"""Prioritized experience replay, proportional variant (Schaul et al., 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from lfiw.replay.base import Replay, ReplayContext
from lfiw.replay.priorities import (
    Prioritised,
    add_at_maximum,
    init_prioritised,
    larger_error,
    prioritise,
)
from lfiw.replay.ring import unit_sample
from lfiw.replay.sum_tree import find_slots, total, tree_noise
from lfiw.settings import setting
from lfiw.types import Clock, Metrics, Sample, Trace, anneal


@dataclass(frozen=True)
class PerConfig:
    """Large TD errors are drawn more often, and corrected for (Schaul et al., 2016)."""

    name: ClassVar[str] = "per"
    # alpha, beta: paper, footnote to Table 1; Schaul et al. anneal to 1
    alpha: float = setting(0.6, "how much priorities count", at_least=0, at_most=1)
    beta: float = setting(0.4, "exponent of the correction at first", at_least=0, at_most=1)
    beta_end: float = setting(1.0, "the same at the schedule's end", at_least=0, at_most=1)
    # keeps every stored transition drawable
    epsilon: float = setting(1e-6, "added to every TD error", at_least=1e-12)

    @classmethod
    def paper(cls) -> PerConfig:
        return cls(beta_end=0.4)  # its footnote names no annealing


def importance_weights(probabilities: Array, size: Array, beta: Array | float) -> Array:
    """(N P(i))^-beta, divided by the largest of the batch."""
    log_weights = -beta * jnp.log(size * probabilities)
    return jnp.exp(log_weights - jnp.max(log_weights))


def make_per(config: PerConfig, context: ReplayContext) -> Replay:
    def sample(
        state: Prioritised, uniforms: Array, clock: Clock
    ) -> tuple[Prioritised, Sample, Trace]:
        slots = find_slots(state.tree, uniforms)
        probabilities = state.tree[-1][slots] / total(state.tree)
        beta = anneal(config.beta, config.beta_end, clock)
        weights = importance_weights(probabilities, state.ring.size, beta)
        drawn = unit_sample(state.ring, slots, context.spec)._replace(weights=weights)
        return state, drawn, {"beta": beta, "is_weights": weights}

    def feedback(state: Prioritised, sample: Sample, td_errors: Array) -> Prioritised:
        priorities = (larger_error(td_errors) + config.epsilon) ** config.alpha
        return prioritise(state, sample.slots, priorities)

    def metrics(trace: Trace) -> Metrics:
        return {"beta": trace["beta"], "is_weight_mean": jnp.mean(trace["is_weights"])}

    return Replay(
        init=lambda key: init_prioritised(context),
        add=add_at_maximum,
        draw=lambda key: tree_noise(key, context.batch_size),
        sample=sample,
        feedback=feedback,
        metrics=metrics,
        ring=lambda state: state.ring,
    )
