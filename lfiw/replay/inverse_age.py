"""Replay by the inverse of age: a transition of age k = 0, 1, ... is drawn in proportion to
1 / (k + offset). No tree: the first ages by a table, the others in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.replay.base import Replay, ReplayContext, no_feedback
from lfiw.replay.ring import Ring, add_rows, aged_slots, unit_sample
from lfiw.settings import setting
from lfiw.types import Clock, Sample, Trace

TABLE = 128  # ages whose chances are summed; behind them 1/x is its own mean over [x-1/2, x+1/2]
STRIPS = 1024  # of equal chance, with a uniform of their own: one alone has only 2^24 values


@dataclass(frozen=True)
class InverseAgeConfig:
    """The newest are drawn more often, by 1 / age."""

    name: ClassVar[str] = "inverse-age"
    # 1: the newest has age 1, as in "Weighted SAC"
    offset: float = setting(
        1.0, "added to ages; large values are nearer to uniform", at_least=1, at_most=1e12
    )

    @classmethod
    def paper(cls) -> InverseAgeConfig:
        return cls()  # not in the paper


class InverseAgeNoise(NamedTuple):
    part: Array  # [B] uniforms: within the table or behind it?
    age: Array  # [B] uniforms: which age in the table, which strip behind it
    within: Array  # [B] uniforms: which age of the strip


def inverse_ages(noise: InverseAgeNoise, size: Array, offset: Array | float) -> Array:
    """Ages [B] in 0..size-1 with P(k) ~ 1 / (k + offset)."""
    ages = jnp.arange(TABLE)
    running = jnp.cumsum(jnp.where(ages < size, 1 / (ages + offset), 0.0))
    first = TABLE + offset - 0.5  # where the closed form begins
    tail_mass = jnp.log1p(jnp.maximum(size - TABLE, 0) / first)
    head_mass = running[-1]

    head = jnp.sum(running <= (noise.age * head_mass)[:, None], axis=-1)
    width = tail_mass / STRIPS
    start = jnp.floor(noise.age * STRIPS) * width
    growth = jnp.expm1(start) + jnp.exp(start) * jnp.expm1(noise.within * width)
    tail = TABLE + (first * growth).astype(jnp.int32)
    drawn = jnp.where(noise.part * (head_mass + tail_mass) < head_mass, head, tail)
    return jnp.minimum(drawn, size - 1)


def make_inverse_age(config: InverseAgeConfig, context: ReplayContext) -> Replay:
    def sample(ring: Ring, noise: InverseAgeNoise, clock: Clock) -> tuple[Ring, Sample, Trace]:
        ages = inverse_ages(noise, ring.size, config.offset)
        return ring, unit_sample(ring, aged_slots(ring, ages), context.spec), {}

    return Replay(
        init=lambda key: context.empty_ring(),
        add=add_rows,
        draw=lambda key: InverseAgeNoise(*jax.random.uniform(key, (3, context.batch_size))),
        sample=sample,
        feedback=no_feedback,
    )
