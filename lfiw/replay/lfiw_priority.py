"""LFIW as a priority: transitions are drawn in proportion to the estimated ratio, and not weighted.

The ratio of a transition is refreshed whenever it is drawn. So that stale or wrong ratios cannot
starve the critic, a share of each batch is drawn uniformly: the smallest with which the effective
sample size of the draw stays above the floor that weights would have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.ratio import RatioState, log_ratios, make_ratio, trust_above
from lfiw.replay.base import Replay, ReplayContext, no_feedback
from lfiw.replay.priorities import Prioritised, add_at_maximum, init_prioritised, prioritise
from lfiw.replay.ring import (
    draw_bits,
    pairs_at,
    recent_slots,
    slot_age,
    unit_sample,
    weight_by_age,
)
from lfiw.replay.sum_tree import find_slots, total, tree_noise
from lfiw.types import Clock, Metrics, Sample, Trace

if TYPE_CHECKING:
    from lfiw.replay.lfiw import LfiwConfig

# Our choice: what is hardly ever drawn is hardly ever refreshed, and nothing outweighs all others.
SMALLEST, LARGEST = 1e-3, 1e3


class LfiwPriorityState(NamedTuple):
    drawing: Prioritised
    ratio: RatioState


class LfiwPriorityNoise(NamedTuple):
    part: Array  # [B] uniforms: by the ratio or uniformly?
    by_ratio: Array  # [levels, B] uniforms
    slow: Array  # [B] bits
    fast: Array  # [B] bits


def make_lfiw_priority(config: LfiwConfig, context: ReplayContext) -> Replay:
    spec = context.spec
    ratio = make_ratio(config, spec.obs_size + spec.action_size, context.agent_learning_rate)

    def draw(key: Array) -> LfiwPriorityNoise:
        key_part, key_ratio, key_slow, key_fast = jax.random.split(key, 4)
        return LfiwPriorityNoise(
            part=jax.random.uniform(key_part, (context.batch_size,)),
            by_ratio=tree_noise(key_ratio, context.batch_size),
            slow=draw_bits(key_slow, context.batch_size),
            fast=draw_bits(key_fast, context.batch_size),
        )

    def sample(
        state: LfiwPriorityState, noise: LfiwPriorityNoise, clock: Clock
    ) -> tuple[LfiwPriorityState, Sample, Trace]:
        ring, tree, _ = state.drawing
        by_ratio = find_slots(tree, noise.by_ratio)

        def relative(slots: Array) -> Array:
            """Priorities on a scale where the mean of all is one."""
            return tree[-1][slots] * (ring.size / total(tree))

        # Drawn in proportion to themselves, their mean is 1 + the spread of all.
        spread = jnp.maximum(jnp.mean(relative(by_ratio)) - 1, 0.0)
        trust = trust_above(config.min_effective_sample_size, spread)
        uniform = recent_slots(noise.slow, ring, ring.size)
        slots = jnp.where(noise.part < trust, by_ratio, uniform)

        slow = pairs_at(ring, uniform, spec)
        fast = pairs_at(ring, recent_slots(noise.fast, ring, config.fast_size), spec)
        ratio_state, slow_logits, fast_logits = ratio.update(state.ratio, slow, fast)
        bound = ring.size / jnp.minimum(ring.size, config.fast_size) if config.clip_ratio else None
        form = (config.temperature, config.transform, bound)
        logits = ratio.logits(state.ratio, pairs_at(ring, slots, spec))
        # A ratio of one is a priority of one, as before any was estimated: the sigmoid's is a half.
        log_priorities = log_ratios(logits, *form) - log_ratios(jnp.zeros(()), *form)
        priorities = jnp.clip(jnp.exp(log_priorities), SMALLEST, LARGEST)
        warm = clock.env_steps >= config.warmup_env_steps
        drawing = prioritise(state.drawing, slots, jnp.where(warm, priorities, 1.0))
        trace = {
            "slow_logits": slow_logits,
            "fast_logits": fast_logits,
            "spread": spread,
            "trust": trust,
            "relative": relative(uniform),
            "relative_age": slot_age(ring, uniform) / ring.size,
        }
        return LfiwPriorityState(drawing, ratio_state), unit_sample(ring, slots, spec), trace

    def metrics(trace: Trace) -> Metrics:
        """Under the names that LFIW's weights have: a priority's share is a weight of the draw."""
        spread, trust = trace["spread"], trace["trust"]
        drawn = (1 - trust) + trust * trace["relative"]
        return ratio.metrics(trace["slow_logits"], trace["fast_logits"]) | {
            "effective_sample_size": 1 / (1 + jnp.square(trust) * spread),
            "raw_effective_sample_size": 1 / (1 + spread),
            "trust": trust,
            "max_weight": jnp.max(drawn),
            "weight_by_age": weight_by_age(drawn, trace["relative_age"]),
        }

    return Replay(
        init=lambda key: LfiwPriorityState(init_prioritised(context), ratio.init(key)),
        add=lambda state, rows: state._replace(drawing=add_at_maximum(state.drawing, rows)),
        draw=draw,
        sample=sample,
        feedback=no_feedback,
        metrics=metrics,
        ring=lambda state: state.drawing.ring,
        networks=lambda state: ratio.arrays(state.ratio),
        products=ratio.products,
    )
