"""Multi-layer perceptrons as plain pytrees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.networks.base import Network


class Layer(NamedTuple):
    weight: Array  # [in, out]
    bias: Array | None  # [out]; none in front of a norm, which has a shift of its own


Mlp = tuple[Layer, ...]


def init_layer(key: Array, fan_in: int, fan_out: int, limit: float | None = None) -> Layer:
    """Uniform within 1/sqrt(fan_in), the initialisation of the usual SAC and TD3 codes."""
    limit = 1 / math.sqrt(fan_in) if limit is None else limit
    key_weight, key_bias = jax.random.split(key)
    return Layer(
        weight=jax.random.uniform(key_weight, (fan_in, fan_out), minval=-limit, maxval=limit),
        bias=jax.random.uniform(key_bias, (fan_out,), minval=-limit, maxval=limit),
    )


def apply_layer(layer: Layer, x: Array) -> Array:
    products = jnp.matmul(x, layer.weight)
    return products if layer.bias is None else products + layer.bias


def mlp(sizes: Sequence[int], last_limit: float | None = None) -> Network:
    """ReLU between layers, none after the last; `last_limit` bounds the last layer's first
    values."""

    def init(key: Array) -> Mlp:
        keys = jax.random.split(key, len(sizes) - 1)
        limits = [None] * (len(sizes) - 2) + [last_limit]
        return tuple(
            init_layer(*layer) for layer in zip(keys, sizes[:-1], sizes[1:], limits, strict=True)
        )

    def apply(layers: Mlp, x: Array) -> Array:
        *hidden, last = layers
        for layer in hidden:
            x = jax.nn.relu(apply_layer(layer, x))
        return apply_layer(last, x)

    products = [fan_in * fan_out for fan_in, fan_out in pairwise(sizes)]
    return Network(
        init=init,
        apply=apply,
        arrays=layer_arrays,
        products=sum(products),
        input_products=products[0],
        output_products=products[-1],
    )


def layer_arrays(layers: Mlp, prefix: str) -> dict[str, Array]:
    return {
        f"{prefix}.{index}.{name}": array
        for index, layer in enumerate(layers)
        for name, array in layer._asdict().items()
    }
