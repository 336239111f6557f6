"""f-divergences for estimating a density ratio from samples (paper, Lemma 1 and Eq. 8).

The network's raw output is the logit z, and the ratio is w = exp(z). For each divergence
the loss of Eq. 8 is mean(on_slow(z_slow)) + mean(on_fast(z_fast)), with
on_slow(z) = f*(f'(e^z)) and on_fast(z) = -f'(e^z).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

LOGIT_LIMIT = 20.0  # e^40 is still finite in float32


class Divergence(NamedTuple):
    on_slow: Callable[[Array], Array]
    on_fast: Callable[[Array], Array]


def bounded(logits: Array) -> Array:
    """Values within the limit, with the gradient of the identity, so that a logit beyond
    the limit is still pulled back."""
    return logits + jax.lax.stop_gradient(jnp.clip(logits, -LOGIT_LIMIT, LOGIT_LIMIT) - logits)


DIVERGENCES: dict[str, Divergence] = {
    # f(u) = u log u - (1 + u) log((1 + u) / 2).
    # Deviation: the paper prints log(1 - u), which is undefined for u >= 1.
    "jensen-shannon": Divergence(
        on_slow=lambda z: jax.nn.softplus(z) - math.log(2),
        on_fast=lambda z: jax.nn.softplus(-z) - math.log(2),
    ),
    # f(u) = u log u
    "kl": Divergence(
        on_slow=lambda z: jnp.exp(bounded(z)),
        on_fast=lambda z: -1 - z,
    ),
    # f(u) = (u - 1)^2
    "pearson": Divergence(
        on_slow=lambda z: jnp.exp(2 * bounded(z)) - 1,
        on_fast=lambda z: 2 - 2 * jnp.exp(bounded(z)),
    ),
    # f(u) = (sqrt(u) - 1)^2
    "hellinger": Divergence(
        on_slow=lambda z: jnp.exp(0.5 * bounded(z)) - 1,
        on_fast=lambda z: jnp.exp(-0.5 * bounded(z)) - 1,
    ),
}
