"""Multi-layer perceptrons as plain pytrees.

Weights may carry leading axes: twin critics are one network whose weights are stacked
as [2, in, out], so that both run in one batched product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Layer(NamedTuple):
    weight: Array  # [..., in, out]
    bias: Array  # [..., out]


Mlp = tuple[Layer, ...]


def init_layer(key: Array, fan_in: int, fan_out: int, limit: float | None = None) -> Layer:
    """Uniform within 1/sqrt(fan_in), the initialisation of the usual SAC and TD3 codes."""
    limit = 1 / math.sqrt(fan_in) if limit is None else limit
    key_weight, key_bias = jax.random.split(key)
    return Layer(
        weight=jax.random.uniform(key_weight, (fan_in, fan_out), minval=-limit, maxval=limit),
        bias=jax.random.uniform(key_bias, (fan_out,), minval=-limit, maxval=limit),
    )


def init_mlp(key: Array, sizes: Sequence[int], last_limit: float | None = None) -> Mlp:
    """A network with the given layer sizes; `last_limit` bounds the last layer's values."""
    keys = jax.random.split(key, len(sizes) - 1)
    limits = [None] * (len(sizes) - 2) + [last_limit]
    return tuple(
        init_layer(*layer) for layer in zip(keys, sizes[:-1], sizes[1:], limits, strict=True)
    )


def apply_mlp(network: Mlp, x: Array) -> Array:
    """ReLU between layers, none after the last; leading axes of the weights are batched."""
    *hidden, last = network
    for layer in hidden:
        x = jax.nn.relu(apply_layer(layer, x))
    return apply_layer(last, x)


def apply_layer(layer: Layer, x: Array) -> Array:
    return jnp.matmul(x, layer.weight) + layer.bias[..., None, :]


def init_twin_critics(key: Array, input_size: int, hidden_sizes: Sequence[int]) -> Mlp:
    sizes = (input_size, *hidden_sizes, 1)
    return jax.vmap(lambda key: init_mlp(key, sizes))(jax.random.split(key, 2))


def apply_critics(critics: Mlp, obs: Array, action: Array) -> Array:
    """Q values of all stacked critics, [2, B]."""
    inputs = jnp.concatenate([obs, action], axis=-1)
    # One copy of the inputs per critic: without the barrier XLA merges the first products
    # into one and then transposes the much larger activations.
    copies = jnp.broadcast_to(inputs, (critics[0].weight.shape[0], *inputs.shape))
    return apply_mlp(critics, jax.lax.optimization_barrier(copies))[..., 0]


def named_arrays(network: Mlp, prefix: str) -> dict[str, Array]:
    """Flat names, the form in which networks are stored and handed to the numpy policy."""
    return {
        f"{prefix}.{index}.{name}": array
        for index, layer in enumerate(network)
        for name, array in layer._asdict().items()
    }
