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


def projected(masses: Array, shift: Array, slope: Array) -> Array:
    """Masses [B, NUM_ATOMS] of the atoms, moved to shift + slope * atom (shift, slope [B], slope at
    least 0), as masses on the atoms: each is split between the two atoms beside its new place, in
    proportion to how near they are (two-hot).

    With places b_j counted in atoms, atom k gets sum_j p_j max(0, 1 - |b_j - k|), the second
    difference of M(x) = sum_j p_j max(0, x - b_j). As places ascend, M follows from running sums
    and the number of places up to x; no array has both j and k. Masses are right to about 1e-5.
    """
    per_atom = 2 * LIMIT / (NUM_ATOMS - 1)
    numbers = jnp.arange(NUM_ATOMS)
    first = ((shift - slope * LIMIT + LIMIT) / per_atom)[:, None]
    places = jnp.clip(first + slope[:, None] * numbers, 0, NUM_ATOMS - 1)
    levels = numbers + 1  # x: M is 0 up to 0
    # A rounded quotient may miscount a place at x itself, which adds nothing to M(x).
    last = jnp.floor((levels - first) / jnp.maximum(slope[:, None], 1e-6))
    last = jnp.where(levels >= NUM_ATOMS - 1, NUM_ATOMS, last)  # where places are clipped
    counts = jnp.clip(last + 1, 0, NUM_ATOMS).astype(jnp.int32)

    def up_to(values: Array) -> Array:
        sums = jnp.pad(jnp.cumsum(values, axis=-1), ((0, 0), (1, 0)))
        return jnp.take_along_axis(sums, counts, axis=-1)

    ramps = jnp.pad(levels * up_to(masses) - up_to(masses * places), ((0, 0), (2, 0)))
    return jnp.diff(ramps, n=2, axis=-1)


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
        slope = gamma * discount
        target = jax.lax.stop_gradient(
            projected(jax.nn.softmax(lower), reward + slope * bonus, slope)
        )
        return -jnp.sum(target * jax.nn.log_softmax(outputs), axis=-1)

    return CriticHead(NUM_ATOMS, value, loss)


def scalar(loss_of_errors: Callable[[Array], Array]) -> CriticHead:
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
        return loss_of_errors(value(outputs) - bellman_target(reward, discount, gamma, next_value))

    return CriticHead(1, value, loss)
