"""FlashSAC's network: an embedding, blocks that widen, narrow and add to what they were given, and
the last layer behind a norm of root mean squares.

BatchNorm stands in front of the embedding and behind both layers of a block. Where its statistics
are fixed it folds into them, and what is left is `residual`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.errors import InputError
from lfiw.networks.base import Network
from lfiw.networks.mlp import Layer, apply_layer
from lfiw.networks.normed import (
    ALL_ROWS,
    Moments,
    Norm,
    NormedNetwork,
    Statistics,
    affine,
    before,
    behind,
    init_moments,
    init_norm,
    normalised,
    normalised_by,
    orthogonal,
    unit_columns,
)

EXPANSION = 4  # a block is so many times as wide inside
EPSILON = 1e-5  # added to variances; FlashSAC's code
RMS_EPSILON = 1e-6  # added to mean squares; its code


class Block(NamedTuple):
    widening: Layer
    narrowing: Layer


class Residual(NamedTuple):
    embedding: Layer
    blocks: tuple[Block, ...]
    head: Layer


class BlockNorms(NamedTuple):
    widened: Norm
    narrowed: Norm


class NormedResidual(NamedTuple):
    layers: Residual  # without biases but for the head's
    inputs: Norm
    norms: tuple[BlockNorms, ...]  # of each block
    scale: Array  # [width] of the root mean squares


def residual(sizes: Sequence[int]) -> Network:
    """Hidden sizes are those of the blocks."""
    width, count = width_of(sizes), len(sizes) - 2

    def init(key: Array) -> Residual:
        layers = first_layers(key, sizes)
        return jax.tree.map(
            lambda layer: layer._replace(bias=jnp.zeros(layer.weight.shape[1])),
            layers,
            is_leaf=lambda leaf: isinstance(leaf, Layer),
        )

    def apply(parameters: Residual, x: Array) -> Array:
        x = apply_layer(parameters.embedding, x)
        for block in parameters.blocks:
            wide = jax.nn.relu(apply_layer(block.widening, x))
            x = x + jax.nn.relu(apply_layer(block.narrowing, wide))
        return apply_layer(parameters.head, at_root_mean_square_one(x))

    def arrays(parameters: Residual, prefix: str) -> dict[str, Array]:
        named = {"embedding": parameters.embedding, "head": parameters.head}
        for index, block in enumerate(parameters.blocks):
            named |= {f"{index}.{name}": layer for name, layer in block._asdict().items()}
        return {
            f"{prefix}.residual.{name}.{part}": array
            for name, layer in named.items()
            for part, array in layer._asdict().items()
        }

    return Network(
        init=init,
        apply=apply,
        arrays=arrays,
        products=(sizes[0] + 2 * EXPANSION * width * count + sizes[-1]) * width,
        input_products=sizes[0] * width,
        output_products=width * sizes[-1],
    )


def normed_residual(sizes: Sequence[int]) -> NormedNetwork:
    """As `residual(sizes)`; each batch is normalised by its own statistics, and weights are kept at
    norm one."""
    width, count = width_of(sizes), len(sizes) - 2
    plain = residual(sizes)

    def init(key: Array) -> NormedResidual:
        layers = first_layers(key, sizes)
        norms = BlockNorms(init_norm(EXPANSION * width), init_norm(width))
        return NormedResidual(layers, init_norm(sizes[0]), count * (norms,), jnp.ones(width))

    def statistics() -> Statistics:
        of_block = (init_moments(EXPANSION * width), init_moments(width))
        return (init_moments(sizes[0]), *(count * of_block))

    def apply(
        parameters: NormedResidual, x: Array, rows: slice = ALL_ROWS
    ) -> tuple[Array, Statistics]:
        seen: list[Moments] = []

        def normalise(norm: Norm, x: Array) -> Array:
            x, moments = normalised(norm, x, EPSILON)
            seen.append(moments)
            return x

        layers = parameters.layers
        x = apply_layer(layers.embedding, normalise(parameters.inputs, x))
        for block, norms in zip(layers.blocks, parameters.norms, strict=True):
            wide = jax.nn.relu(normalise(norms.widened, apply_layer(block.widening, x)))
            x = x + jax.nn.relu(normalise(norms.narrowed, apply_layer(block.narrowing, wide)))
        outputs = apply_layer(layers.head, parameters.scale * at_root_mean_square_one(x[rows]))
        return outputs, jax.lax.stop_gradient(tuple(seen))

    def fixed(parameters: NormedResidual, statistics: Statistics, x: Array) -> Array:
        x = normalised_by(parameters.inputs, statistics[0], x, EPSILON)
        return plain.apply(with_hidden_folded(parameters, statistics), x)

    return NormedNetwork(
        init=init,
        statistics=statistics,
        apply=apply,
        plain=plain,
        folded=folded,
        fixed=fixed,
        projected=projected,
    )


def width_of(sizes: Sequence[int]) -> int:
    """The one of all blocks, which add to each other."""
    if len(set(sizes[1:-1])) != 1:
        raise InputError(
            f"The blocks of a residual network have one width, so hidden_sizes cannot be "
            f"{tuple(sizes[1:-1])}: name it once for each block."
        )
    return sizes[1]


def first_layers(key: Array, sizes: Sequence[int]) -> Residual:
    width, count = width_of(sizes), len(sizes) - 2
    keys = iter(jax.random.split(key, 2 * count + 2))

    def layer(inputs: int, outputs: int) -> Layer:
        return Layer(orthogonal(next(keys), (inputs, outputs)), None)

    return Residual(
        embedding=layer(sizes[0], width),
        blocks=tuple(
            Block(layer(width, EXPANSION * width), layer(EXPANSION * width, width))
            for _ in range(count)
        ),
        head=layer(width, sizes[-1])._replace(bias=jnp.zeros(sizes[-1])),
    )


def at_root_mean_square_one(x: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + RMS_EPSILON)


def folded(parameters: NormedResidual, statistics: Statistics) -> Residual:
    """The plain network that normalises by these statistics; with any axes in front of all
    arrays."""
    layers = with_hidden_folded(parameters, statistics)
    of_inputs = affine(parameters.inputs, statistics[0], EPSILON)
    return layers._replace(embedding=before(layers.embedding, *of_inputs))


def with_hidden_folded(parameters: NormedResidual, statistics: Statistics) -> Residual:
    """The same for inputs that are normalised already."""
    of_blocks = statistics[1:]
    layers = parameters.layers
    blocks = tuple(
        Block(
            behind(block.widening, *affine(norms.widened, widened, EPSILON)),
            behind(block.narrowing, *affine(norms.narrowed, narrowed, EPSILON)),
        )
        for block, norms, widened, narrowed in zip(
            layers.blocks, parameters.norms, of_blocks[0::2], of_blocks[1::2], strict=True
        )
    )
    return Residual(
        embedding=layers.embedding,
        blocks=blocks,
        head=layers.head._replace(weight=parameters.scale[..., None] * layers.head.weight),
    )


def projected(parameters: NormedResidual) -> NormedResidual:
    """Every unit's weights at norm one, and every norm's scale and shift together at the root of
    the number of features."""

    def norm(norm: Norm) -> Norm:
        factor = to_root_of_size(jnp.square(norm.scale) + jnp.square(norm.shift))
        return Norm(factor * norm.shift, factor * norm.scale)

    def layer(layer: Layer) -> Layer:
        return layer._replace(weight=unit_columns(layer.weight))

    return NormedResidual(
        layers=jax.tree.map(layer, parameters.layers, is_leaf=lambda leaf: isinstance(leaf, Layer)),
        inputs=norm(parameters.inputs),
        norms=tuple(BlockNorms(*map(norm, norms)) for norms in parameters.norms),
        scale=to_root_of_size(jnp.square(parameters.scale)) * parameters.scale,
    )


def to_root_of_size(squares: Array) -> Array:
    """What brings features with these squares [..., n] to a norm of sqrt(n)."""
    size = squares.shape[-1]
    return math.sqrt(size) * jax.lax.rsqrt(jnp.sum(squares, axis=-1, keepdims=True) + 1e-8)
