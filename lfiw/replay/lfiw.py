"""Likelihood-free importance weights: the ratio network weights what another strategy draws.

The fast memory is a FIFO of the same transitions as the slow one, hence a window of the
most recent slots of the ring, not a second copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.errors import InputError
from lfiw.ratio import (
    RatioConfig,
    RatioState,
    effective_sample_size,
    make_ratio,
    ratio_weights,
    with_floor,
)
from lfiw.replay import REPLAYS, make_replay
from lfiw.replay.base import Replay, ReplayContext
from lfiw.replay.lfiw_priority import make_lfiw_priority
from lfiw.replay.ring import (
    Ring,
    draw_bits,
    pairs_at,
    recent_slots,
    slot_age,
    weight_by_age,
)
from lfiw.replay.uniform import UniformConfig
from lfiw.settings import part, setting
from lfiw.types import Clock, Metrics, Sample, Trace
from lfiw.wording import assignment


def strategies_to_wrap() -> dict[str, type[Any]]:
    return {name: REPLAYS[name] for name in REPLAYS if name != LfiwConfig.name}


@dataclass(frozen=True)
class LfiwConfig(RatioConfig):
    """The ratio on-policy / stored weights what is drawn."""

    name: ClassVar[str] = "lfiw"
    OLD_NAMES: ClassVar[dict[str, str]] = {"sampling": "over", "per": "over"}
    # paper, section 5
    fast_size: int = setting(10_000, "size of the fast memory", at_least=1, traced=True)
    # Paper: 100 "episodes" of 1000 steps. The network trains from the first update on, so
    # that it is ready when the weights are switched on.
    warmup_env_steps: int = setting(
        100_000, "steps before which all weights are 1", at_least=0, traced=True
    )
    clip_ratio: bool = setting(False, "clip the ratio at its exact bound")
    weight_policy: bool = setting(False, "weight the actor's loss too")
    use: Literal["weight", "priority"] = setting(
        "weight", "whether the ratio weights what is drawn, or draws in proportion to itself"
    )
    over: Any = part(strategies_to_wrap, UniformConfig, "the strategy that draws")

    @classmethod
    def paper(cls) -> LfiwConfig:
        return cls(transform="power", min_effective_sample_size=0.0)

    def check(self, buffer_size: int) -> None:
        if self.fast_size >= buffer_size:
            raise InputError(
                f"replay.fast_size {self.fast_size} must be below the ring's capacity, buffer_size "
                f"{buffer_size}."
            )
        if self.use == "priority" and (self.over != UniformConfig() or self.weight_policy):
            raise InputError(
                "replay.use=priority draws by itself and weights nothing: leave replay.over at "
                "uniform and replay.weight_policy at false."
            )

    def warnings(self, env_steps: int) -> list[str]:
        if self.warmup_env_steps >= env_steps:
            return [
                f"before its warm-up of {self.warmup_env_steps}: it is plain {self.over.name} "
                f"replay ({assignment('replay.warmup_env_steps', 'N')} changes that)."
            ]
        if self.fast_size >= env_steps:
            return [
                f"so its fast memory of {self.fast_size} holds all of them and the weights stay "
                f"near 1 (lower replay.fast_size)."
            ]
        return []


class LfiwState(NamedTuple):
    base: Any  # state of the strategy that draws
    ratio: RatioState


class LfiwNoise(NamedTuple):
    base: Any
    fast: Array
    slow: Array | None  # where the batch itself is no sample of the slow memory


def make_lfiw(config: LfiwConfig, context: ReplayContext) -> Replay:
    if config.use == "priority":
        return make_lfiw_priority(config, context)
    spec = context.spec
    input_size = spec.obs_size + spec.action_size
    ratio = make_ratio(config, input_size, context.agent_learning_rate)
    base = make_replay(config.over, context)

    def init(key: Array) -> LfiwState:
        return LfiwState(base.init(jax.random.fold_in(key, 1)), ratio.init(key))

    def add(state: LfiwState, rows: Array) -> LfiwState:
        return state._replace(base=base.add(state.base, rows))

    def draw(key: Array) -> LfiwNoise:
        # The base consumes `key` itself, so that it draws what it would draw alone.
        key_fast, key_slow = jax.random.split(jax.random.fold_in(key, 1))
        return LfiwNoise(
            base=base.draw(key),
            fast=draw_bits(key_fast, context.batch_size),
            slow=None if base.is_uniform else draw_bits(key_slow, context.batch_size),
        )

    def train_ratio(
        state: RatioState, ring: Ring, drawn: Sample, noise: LfiwNoise
    ) -> tuple[RatioState, Array, Array, Array]:
        """One step of the network, and its logits: of the drawn, of slow and of fast pairs."""
        pairs = jnp.concatenate([drawn.batch.obs, drawn.batch.action], axis=-1)
        fast = pairs_at(ring, recent_slots(noise.fast, ring, config.fast_size), spec)
        if noise.slow is None:
            new_state, slow_logits, fast_logits = ratio.update(state, pairs, fast)
            return new_state, slow_logits, slow_logits, fast_logits
        # The ratio is defined against the slow memory, whatever the base draws.
        slow = pairs_at(ring, recent_slots(noise.slow, ring, ring.size), spec)
        new_state, slow_logits, fast_logits = ratio.update(state, slow, fast)
        return new_state, ratio.logits(state, pairs), slow_logits, fast_logits

    def sample(state: LfiwState, noise: LfiwNoise, clock: Clock) -> tuple[LfiwState, Sample, Trace]:
        base_state, drawn, trace = base.sample(state.base, noise.base, clock)
        ring = base.ring(state.base)
        ratio_state, logits, slow_logits, fast_logits = train_ratio(state.ratio, ring, drawn, noise)
        bound = ring.size / jnp.minimum(ring.size, config.fast_size) if config.clip_ratio else None
        raw = ratio_weights(logits, config.temperature, config.transform, bound)
        raw = jnp.where(clock.env_steps >= config.warmup_env_steps, raw, 1.0)
        weights, trust = with_floor(raw, config.min_effective_sample_size)
        trace = {
            "base": trace,
            "slow_logits": slow_logits,
            "fast_logits": fast_logits,
            "raw_weights": raw,
            "ratio_weights": weights,
            "trust": trust,
            "relative_age": slot_age(ring, drawn.slots) / ring.size,
        }
        if config.weight_policy:
            drawn = drawn._replace(policy_weights=weights)
        if not base.is_uniform:
            weights = weights * drawn.weights
            weights = weights / jnp.mean(weights)
        return LfiwState(base_state, ratio_state), drawn._replace(weights=weights), trace

    def metrics(trace: Trace) -> Metrics:
        weights = trace["ratio_weights"]
        of_parts = base.metrics(trace["base"]) | ratio.metrics(
            trace["slow_logits"], trace["fast_logits"]
        )
        return of_parts | {
            "effective_sample_size": effective_sample_size(weights),
            "raw_effective_sample_size": effective_sample_size(trace["raw_weights"]),
            "trust": trace["trust"],
            "max_weight": jnp.max(weights),
            "weight_by_age": weight_by_age(weights, trace["relative_age"]),
        }

    def feedback(state: LfiwState, sample: Sample, td_errors: Array) -> LfiwState:
        return state._replace(base=base.feedback(state.base, sample, td_errors))

    return Replay(
        init=init,
        add=add,
        draw=draw,
        sample=sample,
        feedback=feedback,
        metrics=metrics,
        ring=lambda state: base.ring(state.base),
        networks=lambda state: base.networks(state.base) | ratio.arrays(state.ratio),
        products=base.products + ratio.products,
        td_loss=base.td_loss,
    )
