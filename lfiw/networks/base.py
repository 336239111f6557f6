"""What a network is: pure functions over its parameters, and how much it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

Parameters = Any  # a pytree of arrays


class Network(NamedTuple):
    """Written for one set of parameters; its numpy twin is in `lfiw.acting.networks`."""

    init: Callable[[Array], Parameters]  # key -> parameters
    apply: Callable[[Parameters, Array], Array]  # (parameters, inputs [B, in]) -> outputs [B, out]
    # (parameters, prefix) -> arrays by name, as they are stored and as the twin reads them
    arrays: Callable[[Parameters, str], dict[str, Array]]
    products: int  # multiplications of one row's forward pass
    input_products: int  # those of the first layer, whose input needs no gradient
    output_products: int  # those of the last layer

    @property
    def trained_products(self) -> int:
        """Of a pass forward and one back to all parameters: every product has a gradient by its
        weights, and one by its input unless that is the network's own."""
        return 3 * self.products - self.input_products


def stacked(apply: Callable[[Parameters, Array], Any]) -> Callable[[Parameters, Array], Any]:
    """The function for parameters that are stacked [2, ...], in one batched product."""

    def of_each(parameters: Parameters, inputs: Array) -> Any:
        # One copy of the inputs for each: without the barrier XLA merges the first products
        # into one and then transposes the much larger activations.
        count = jax.tree.leaves(parameters)[0].shape[0]
        copies = jnp.broadcast_to(inputs, (count, *inputs.shape))
        return jax.vmap(apply)(parameters, jax.lax.optimization_barrier(copies))

    return of_each


def twins(network: Network) -> Network:
    """Two networks of a kind, with stacked parameters; outputs [2, B, out]."""
    return Network(
        init=lambda key: jax.vmap(network.init)(jax.random.split(key, 2)),
        apply=stacked(network.apply),
        arrays=network.arrays,
        products=2 * network.products,
        input_products=2 * network.input_products,
        output_products=2 * network.output_products,
    )
