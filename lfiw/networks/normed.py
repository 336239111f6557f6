"""MLPs with BatchNorm on their inputs and behind every hidden layer (Ioffe and Szegedy, 2015).

Where rows are normalised by fixed statistics, all of it is affine but for the ReLUs: it folds into
a plain MLP, which acts, deploys and stands in snapshots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.networks.base import Network, Parameters
from lfiw.networks.mlp import Layer, Mlp, apply_layer, mlp

EPSILON = 1e-3  # added to variances; CrossQ's and XQC's code
GAIN = math.sqrt(2)  # of orthogonal weights in front of a ReLU; XQC's code
ALL_ROWS = slice(None)
NEWTON_STEPS = 50  # each makes a small singular value 1.5 times as large: 1e-8 is near 1 after 46


class Norm(NamedTuple):
    """What replaces mean and deviation of the normalised features."""

    shift: Array  # [features]
    scale: Array  # [features]


class Moments(NamedTuple):
    """Of features over rows."""

    mean: Array  # [features]
    variance: Array  # [features]


class NormedMlp(NamedTuple):
    layers: Mlp
    norms: tuple[Norm, ...]  # of the inputs, then of each hidden layer; none without BatchNorm


Statistics = tuple[Moments, ...]  # one for each norm


class NormedApply(Protocol):
    def __call__(
        self, parameters: Parameters, inputs: Array, /, rows: slice = ALL_ROWS
    ) -> tuple[Array, Statistics]:
        """Outputs [rows, out] of these rows of the inputs [B, in], and the statistics of all: what
        is only there to be normalised with is spared the last layer."""


class NormedNetwork(NamedTuple):
    """Pure functions over parameters and the running statistics of what they normalise."""

    init: Callable[[Array], Parameters]  # key -> parameters
    statistics: Callable[[], Statistics]  # before the first batch
    apply: NormedApply
    plain: Network  # what it is where the statistics are fixed
    # (parameters, statistics) -> parameters of `plain`; with any axes in front of all arrays
    folded: Callable[[Parameters, Statistics], Parameters]
    # (parameters, statistics, inputs [B, in]) -> outputs, those of `plain` with what is `folded`.
    # Inputs are normalised before the first product, as in `apply`: one of low precision, such as
    # those of GPUs, loses what varies little beside its mean.
    fixed: Callable[[Parameters, Statistics, Array], Array]
    projected: Callable[[Parameters], Parameters]  # after every step; with any axes in front


def normed_mlp(
    sizes: Sequence[int], batch_norm: bool = True, unit_norm: bool = True
) -> NormedNetwork:
    """As `mlp(sizes)`; each batch is normalised by its own statistics, and weights are kept at
    norm one."""
    features = sizes[:-1] if batch_norm else ()
    plain = mlp(sizes)

    def init(key: Array) -> NormedMlp:
        if not (batch_norm or unit_norm):
            return NormedMlp(plain.init(key), ())
        keys = jax.random.split(key, len(sizes) - 1)
        *hidden, last = (
            Layer(orthogonal(key, shape, GAIN), jnp.zeros(shape[1]))
            for key, shape in zip(keys, pairwise(sizes), strict=True)
        )
        if batch_norm:
            hidden = [layer._replace(bias=None) for layer in hidden]
        return NormedMlp((*hidden, last), tuple(map(init_norm, features)))

    def statistics() -> Statistics:
        return tuple(map(init_moments, features))

    def apply(parameters: NormedMlp, x: Array, rows: slice = ALL_ROWS) -> tuple[Array, Statistics]:
        *hidden, last = parameters.layers
        seen = []

        def normalise(x: Array, at: int) -> Array:
            if not parameters.norms:
                return x
            x, moments = normalised(parameters.norms[at], x)
            seen.append(moments)
            return x

        x = normalise(x, 0)
        for at, layer in enumerate(hidden, start=1):
            x = jax.nn.relu(normalise(apply_layer(layer, x), at))
        return apply_layer(last, x[rows]), jax.lax.stop_gradient(tuple(seen))

    def fixed(parameters: NormedMlp, statistics: Statistics, x: Array) -> Array:
        if parameters.norms:
            x = normalised_by(parameters.norms[0], statistics[0], x)
        return plain.apply(with_hidden_folded(parameters, statistics), x)

    return NormedNetwork(
        init=init,
        statistics=statistics,
        apply=apply,
        plain=plain,
        folded=folded,
        fixed=fixed,
        projected=at_norm_one if unit_norm else lambda parameters: parameters,
    )


def orthogonal(key: Array, shape: tuple[int, int], gain: float = 1.0) -> Array:
    """First weights, whose columns (or rows, where they are fewer) are orthogonal: the polar
    factor of normal numbers, by Newton and Schulz. LAPACK's QR on a CPU waits for threads of the
    pool that it runs on, and where several are batched on few cores it waits for ever."""
    tall = jax.random.normal(key, (max(shape), min(shape)))

    def step(_: Array, x: Array) -> Array:
        """Brings every singular value below the root of 3 nearer to 1."""
        squares = jnp.matmul(x.T, x, precision="highest")
        return 1.5 * x - 0.5 * jnp.matmul(x, squares, precision="highest")

    largest = math.sqrt(shape[0]) + math.sqrt(shape[1])  # singular value, or hardly less than it
    weight: Array = gain * jax.lax.fori_loop(0, NEWTON_STEPS, step, tall / largest)
    return weight if shape[0] >= shape[1] else weight.T


def init_norm(size: int) -> Norm:
    return Norm(jnp.zeros(size), jnp.ones(size))


def init_moments(size: int) -> Moments:
    return Moments(jnp.zeros(size), jnp.ones(size))


def normalised(norm: Norm, x: Array, epsilon: float = EPSILON) -> tuple[Array, Moments]:
    """Rows [B, features] by their own statistics, and those."""
    # Seen from a row of theirs, both moments take one pass without loss by rounding.
    origin = jax.lax.stop_gradient(x[0])
    x = x - origin
    mean = jnp.mean(x, axis=0)
    moments = Moments(mean, jnp.mean(jnp.square(x), axis=0) - jnp.square(mean))
    slope, offset = affine(norm, moments, epsilon)
    return x * slope + offset, moments._replace(mean=origin + mean)


def normalised_by(norm: Norm, moments: Moments, x: Array, epsilon: float = EPSILON) -> Array:
    """Rows [B, features] by these moments."""
    slope, _ = affine(norm, moments, epsilon)
    return (x - moments.mean) * slope + norm.shift


def affine(norm: Norm, moments: Moments, epsilon: float = EPSILON) -> tuple[Array, Array]:
    """Slope and offset of a norm where the moments are given."""
    slope = norm.scale * jax.lax.rsqrt(moments.variance + epsilon)
    return slope, norm.shift - moments.mean * slope


def folded(parameters: NormedMlp, statistics: Statistics) -> Mlp:
    """The plain MLP that normalises by these statistics; with any axes in front of all arrays."""
    layers = with_hidden_folded(parameters, statistics)
    if not parameters.norms:
        return layers
    first, *others = layers
    return (before(first, *affine(parameters.norms[0], statistics[0])), *others)


def with_hidden_folded(parameters: NormedMlp, statistics: Statistics) -> Mlp:
    """The same for inputs that are normalised already."""
    layers = list(parameters.layers)
    for at, norm in enumerate(map(affine, parameters.norms[1:], statistics[1:])):
        layers[at] = behind(layers[at], *norm)
    return tuple(layers)


def before(layer: Layer, slope: Array, offset: Array) -> Layer:
    """The layer of `x * slope + offset`."""
    bias = jnp.sum(offset[..., None] * layer.weight, axis=-2)
    if layer.bias is not None:
        bias += layer.bias
    return Layer(slope[..., None] * layer.weight, bias)


def behind(layer: Layer, slope: Array, offset: Array) -> Layer:
    """The layer whose outputs are turned into `outputs * slope + offset`."""
    bias = offset if layer.bias is None else layer.bias * slope + offset
    return Layer(layer.weight * slope[..., None, :], bias)


def at_norm_one(parameters: NormedMlp) -> NormedMlp:
    """Every hidden unit's weights, with its bias where it has one, at norm one, and those of every
    output without its bias: behind BatchNorm a unit's scale has no effect but to lower its
    learning rate as it grows."""

    def project(layer: Layer) -> Layer:
        if layer.bias is None:
            return Layer(unit_columns(layer.weight), None)
        column = unit_columns(jnp.concatenate([layer.weight, layer.bias[..., None, :]], axis=-2))
        return Layer(column[..., :-1, :], column[..., -1, :])

    *hidden, last = parameters.layers
    last = last._replace(weight=unit_columns(last.weight))
    return parameters._replace(layers=(*map(project, hidden), last))


def unit_columns(weight: Array) -> Array:
    """Columns of norm one; with any axes in front."""
    return weight * jax.lax.rsqrt(jnp.sum(jnp.square(weight), axis=-2, keepdims=True) + 1e-12)


def running(statistics: Statistics, seen: Statistics, rate: float) -> Statistics:
    """Exponential averages of batches' statistics."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), statistics, seen)
