"""Decaying replay: a transition of age k is drawn in proportion to max(floor, (1 - rate)^k).

The distribution is inverted in closed form, so it needs no tree of priorities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.replay.base import Replay, ReplayContext, no_feedback
from lfiw.replay.ring import Ring, add_rows, aged_slots, draw_bits, unit_sample
from lfiw.settings import setting
from lfiw.types import Clock, Sample, Trace

BLOCK = 1024  # ages drawn by a uniform of their own, which has only 2^24 values
MIN_DECAY = 1e-12  # a rate of 0 without 0 / 0; less is uniform in every ring


@dataclass(frozen=True)
class RecencyConfig:
    """The newest are drawn more often, by a decay with a floor."""

    name: ClassVar[str] = "recency"
    # Both: experience replay decay of FoG (arXiv:2507.02712). A rate of 1 has no logarithm.
    rate: float = setting(1e-5, "what each step of age takes away", at_least=0, at_most=0.999)
    floor: float = setting(0.1, "smallest chance, against the newest's", at_least=0, at_most=1)

    @classmethod
    def paper(cls) -> RecencyConfig:
        return cls()  # not in the paper


class RecencyNoise(NamedTuple):
    part: Array  # [B] uniforms: does the age decay, or is it at the floor?
    block: Array  # [B] uniforms: which block of ages
    within: Array  # [B] uniforms: which age of the block
    flat: Array  # [B] bits: which age at the floor


def geometric(uniforms: Array, count: Array | int, decay: Array) -> Array:
    """Real numbers x in [0, count] whose whole part k has P(k) ~ exp(-decay k):
    P(x < k) = (1 - exp(-decay k)) / (1 - exp(-decay count))."""
    return -jnp.log1p(uniforms * jnp.expm1(-decay * count)) / decay


def recent_ages(
    noise: RecencyNoise, size: Array, rate: Array | float, floor: Array | float
) -> Array:
    """Ages [B] in 0..size-1 with P(k) ~ max(floor, (1 - rate)^k)."""
    decay = jnp.maximum(-jnp.log1p(-jnp.asarray(rate, jnp.float32)), MIN_DECAY)
    # Ages below `crossing` decay. Rounding may move it by one where both forms are equal.
    crossing = -jnp.log(jnp.asarray(floor, jnp.float32)) / decay + 1
    crossing = jnp.minimum(jnp.minimum(crossing, size).astype(jnp.int32), size)
    decaying_mass = jnp.expm1(-decay * crossing) / jnp.expm1(-decay)
    flat_mass = floor * (size - crossing)

    # A geometric series is one again within each block, of which the last may be shorter.
    last = (crossing - 1) // BLOCK
    block = (geometric(noise.block, crossing, decay) / BLOCK).astype(jnp.int32)
    start = jnp.minimum(block, last) * BLOCK
    length = jnp.minimum(BLOCK, crossing - start)
    within = geometric(noise.within, length, decay).astype(jnp.int32)
    decaying = start + jnp.minimum(within, length - 1)

    # The remainder of 32 random bits reaches every age, in rings beyond 2^24 too.
    num_flat = jnp.maximum(size - crossing, 1).astype(jnp.uint32)
    flat = jnp.minimum(crossing + (noise.flat % num_flat).astype(jnp.int32), size - 1)
    return jnp.where(noise.part * (decaying_mass + flat_mass) < decaying_mass, decaying, flat)


def make_recency(config: RecencyConfig, context: ReplayContext) -> Replay:
    def draw(key: Array) -> RecencyNoise:
        key_uniforms, key_flat = jax.random.split(key)
        part, block, within = jax.random.uniform(key_uniforms, (3, context.batch_size))
        return RecencyNoise(part, block, within, draw_bits(key_flat, context.batch_size))

    def sample(ring: Ring, noise: RecencyNoise, clock: Clock) -> tuple[Ring, Sample, Trace]:
        ages = recent_ages(noise, ring.size, config.rate, config.floor)
        return ring, unit_sample(ring, aged_slots(ring, ages), context.spec), {}

    return Replay(
        init=lambda key: context.empty_ring(),
        add=add_rows,
        draw=draw,
        sample=sample,
        feedback=no_feedback,
    )
