"""A critic's return as a distribution over fixed atoms (Bellemare et al., 2017), learned by
cross-entropy; and the plain number that SAC's critics are, as the same functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.agents.base import bellman_target

NUM_ATOMS = 101  # as SimbaV2 and XQC
LIMIT = 5.0  # atoms lie in [-LIMIT, LIMIT]: returns are scaled to fit


class CriticHead(NamedTuple):
    """What a critic's outputs mean."""

    output_size: int
    value: Callable[[Array], Array]  # outputs [..., out] -> Q [...]
    # (outputs [2, B, out], reward, discount, gamma, next_outputs [2, B, out], bonus [B]) -> [2, B]
    loss: Callable[[Array, Array, Array, float, Array, Array], Array]


def atoms() -> Array:
    return jnp.linspace(-LIMIT, LIMIT, NUM_ATOMS)


def projected(probabilities: Array, positions: Array) -> Array:
    """Mass [B, n] at positions [B, n] on the atoms [B, NUM_ATOMS]: each position's is split between
    the two atoms beside it, in proportion to how near they are (two-hot)."""
    places = (jnp.clip(positions, -LIMIT, LIMIT) + LIMIT) * ((NUM_ATOMS - 1) / (2 * LIMIT))
    distances = jnp.abs(places[:, None, :] - jnp.arange(NUM_ATOMS)[:, None])
    return jnp.sum(jnp.maximum(1 - distances, 0) * probabilities[:, None, :], axis=-1)


def categorical() -> CriticHead:
    def value(outputs: Array) -> Array:
        return jnp.sum(jax.nn.softmax(outputs) * atoms(), axis=-1)

    def loss(
        outputs: Array,
        reward: Array,
        discount: Array,
        gamma: float,
        next_outputs: Array,
        bonus: Array,
    ) -> Array:
        """Cross-entropy with the distribution of the critic whose mean is smaller."""
        first, second = value(next_outputs)
        lower = jnp.where((first <= second)[:, None], next_outputs[0], next_outputs[1])
        positions = reward[:, None] + gamma * discount[:, None] * (atoms() + bonus[:, None])
        target = jax.lax.stop_gradient(projected(jax.nn.softmax(lower), positions))
        return -jnp.sum(target * jax.nn.log_softmax(outputs), axis=-1)

    return CriticHead(NUM_ATOMS, value, loss)


def scalar() -> CriticHead:
    def value(outputs: Array) -> Array:
        return outputs[..., 0]

    def loss(
        outputs: Array,
        reward: Array,
        discount: Array,
        gamma: float,
        next_outputs: Array,
        bonus: Array,
    ) -> Array:
        next_value = jnp.min(value(next_outputs), axis=0) + bonus
        return jnp.square(value(outputs) - bellman_target(reward, discount, gamma, next_value))

    return CriticHead(1, value, loss)
