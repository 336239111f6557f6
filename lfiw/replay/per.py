"""Prioritized experience replay, proportional variant (Schaul et al., 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.replay.base import Replay, ReplayContext
from lfiw.replay.ring import Ring, add_rows, next_slots, unit_sample
from lfiw.replay.sum_tree import SumTree, find_slots, init_tree, set_priorities, total
from lfiw.settings import setting
from lfiw.types import Clock, Metrics, Sample, Trace, anneal

MAX_ERROR = 1e8  # a diverging critic must not turn the sums into infinity


@dataclass(frozen=True)
class PerConfig:
    name: ClassVar[str] = "per"
    # alpha, beta: paper, footnote to Table 1; Schaul et al. anneal to 1
    alpha: float = setting(0.6, "how much priorities count", at_least=0, at_most=1)
    beta: float = setting(0.4, "exponent of the correction at first", at_least=0, at_most=1)
    beta_end: float = setting(1.0, "the same at the schedule's end", at_least=0, at_most=1)
    # keeps every stored transition drawable
    epsilon: float = setting(1e-6, "added to every TD error", above=0)

    @classmethod
    def paper(cls) -> PerConfig:
        return cls(beta_end=0.4)  # its footnote names no annealing


class PerState(NamedTuple):
    ring: Ring
    tree: SumTree  # priorities^alpha
    max_priority: Array  # [] of all priorities^alpha so far; new transitions enter with it


def importance_weights(probabilities: Array, size: Array, beta: Array | float) -> Array:
    """(N P(i))^-beta, divided by the largest of the batch."""
    log_weights = -beta * jnp.log(size * probabilities)
    return jnp.exp(log_weights - jnp.max(log_weights))


def make_per(config: PerConfig, context: ReplayContext) -> Replay:
    def init(key: Array) -> PerState:
        tree = init_tree(context.capacity)
        return PerState(context.empty_ring(), tree, jnp.ones((), jnp.float32))

    def add(state: PerState, rows: Array) -> PerState:
        slots = next_slots(state.ring, rows.shape[0])
        priorities = jnp.broadcast_to(state.max_priority, slots.shape)
        return state._replace(
            ring=add_rows(state.ring, rows),
            tree=set_priorities(state.tree, slots, priorities),
        )

    def draw(key: Array) -> Array:
        return jax.random.uniform(key, (context.batch_size,))

    def sample(state: PerState, uniforms: Array, clock: Clock) -> tuple[PerState, Sample, Trace]:
        slots = find_slots(state.tree, uniforms)
        probabilities = state.tree[-1][slots] / total(state.tree)
        beta = anneal(config.beta, config.beta_end, clock)
        weights = importance_weights(probabilities, state.ring.size, beta)
        drawn = unit_sample(state.ring, slots, context.spec)._replace(weights=weights)
        return state, drawn, {"beta": beta, "is_weights": weights}

    def feedback(state: PerState, sample: Sample, td_errors: Array) -> PerState:
        errors = jnp.nan_to_num(jnp.max(jnp.abs(td_errors), axis=0), nan=0.0, posinf=MAX_ERROR)
        priorities = (jnp.minimum(errors, MAX_ERROR) + config.epsilon) ** config.alpha
        return state._replace(
            tree=set_priorities(state.tree, sample.slots, priorities),
            max_priority=jnp.maximum(state.max_priority, jnp.max(priorities)),
        )

    def metrics(trace: Trace) -> Metrics:
        return {"beta": trace["beta"], "is_weight_mean": jnp.mean(trace["is_weights"])}

    return Replay(
        init=init,
        add=add,
        draw=draw,
        sample=sample,
        feedback=feedback,
        metrics=metrics,
        ring=lambda state: state.ring,
    )
