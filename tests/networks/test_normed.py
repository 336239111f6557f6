from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from programs import quick_jit, same_bits

from lfiw.networks import Layer, mlp, stacked
from lfiw.networks.normed import (
    Moments,
    Norm,
    NormedMlp,
    NormedNetwork,
    at_norm_one,
    folded,
    init_norm,
    normalised,
    normed_mlp,
    orthogonal,
    running,
)
from lfiw.networks.residual import normed_residual

KEY = jax.random.key(0)


def affine_network() -> NormedMlp:
    """Two features, one hidden unit, one output."""
    return NormedMlp(
        layers=(
            Layer(jnp.array([[1.0], [2.0]]), jnp.array([0.5])),
            Layer(jnp.array([[3.0]]), jnp.array([-1.0])),
        ),
        norms=(
            Norm(shift=jnp.array([0.0, 1.0]), scale=jnp.array([1.0, 2.0])),
            Norm(shift=jnp.array([0.25]), scale=jnp.array([4.0])),
        ),
    )


def test_a_batch_is_normalised_by_its_own_statistics() -> None:
    """Two rows, which lie at -1 and +1 of every feature that varies, up to EPSILON.

    Inputs (0, 10) and (2, 14): means 1 and 12, variances 1 and 4. Normalised (-1, -1) and
    (1, 1); after scale and shift (-1, -1) and (1, 3). Hidden: -1 - 2 + 0.5 = -2.5 and
    1 + 6 + 0.5 = 7.5, mean 2.5, variance 25; normalised -1 and 1, after scale and shift -3.75 and
    4.25, ReLU 0 and 4.25. Outputs: -1 and 3 * 4.25 - 1 = 11.75.
    """
    network = normed_mlp((2, 1, 1))
    outputs, seen = network.apply(affine_network(), jnp.array([[0.0, 10.0], [2.0, 14.0]]))
    np.testing.assert_allclose(outputs[:, 0], [-1.0, 11.75], atol=0.02)
    np.testing.assert_allclose(seen[0].mean, [1.0, 12.0])
    np.testing.assert_allclose(seen[0].variance, [1.0, 4.0])
    np.testing.assert_allclose(seen[1].mean, [2.5], atol=0.01)
    np.testing.assert_allclose(seen[1].variance, [25.0], rtol=1e-2)


def test_far_from_zero_no_digit_is_lost() -> None:
    """A million apart from zero, where squares in float32 are 65536 apart. Rows at -1 and +1 of
    their mean: variance 1, outputs -1 and 1 up to EPSILON. A constant feature has variance 0, and
    outputs of 0."""
    x = jnp.array([[1e6, 7e5], [1e6 + 2, 7e5]])
    outputs, moments = jax.jit(normalised)(init_norm(2), x)
    np.testing.assert_array_equal(moments.mean, [1e6 + 1, 7e5])
    np.testing.assert_array_equal(moments.variance, [1.0, 0.0])
    np.testing.assert_allclose(outputs, [[-1.0, 0.0], [1.0, 0.0]], atol=1e-3)


def test_no_gradient_moves_a_batch_as_a_whole_or_stretches_it() -> None:
    """What is normalised has a mean of 0 and, up to EPSILON, a mean square of 1 whatever the
    inputs; of a batch (0, 2, 4) a third of the sum of cubes has a gradient by hand.

    Mean 2, variance 8/3 = v; outputs y = (-2, 0, 2) / sqrt(v). d/dx of sum(c(y)) is
    (c' - mean(c') - y mean(c' y)) / sqrt(v). For y^3 / 3, c' = y^2 = (1.5, 0, 1.5), mean 1, and
    mean(c' y) = 0: (0.5, -1, 0.5) / sqrt(8/3).
    """
    x = jnp.array([[0.0], [2.0], [4.0]])

    def gradient(power: int) -> np.ndarray:
        def summed(x: Array) -> Array:
            return jnp.sum(normalised(init_norm(1), x, epsilon=0.0)[0] ** power) / power

        return np.asarray(jax.grad(summed)(x)[:, 0])

    np.testing.assert_allclose(gradient(1), 0.0, atol=1e-6)
    np.testing.assert_allclose(gradient(2), 0.0, atol=1e-6)
    expected = np.array([0.5, -1.0, 0.5]) / (8 / 3) ** 0.5
    np.testing.assert_allclose(gradient(3), expected, atol=1e-6)


def test_rows_alone_are_those_of_all() -> None:
    """What is not asked for counts in the statistics all the same."""
    network = normed_mlp((5, 8, 8, 3))
    parameters = network.init(KEY)
    inputs = jax.random.normal(KEY, (50, 5))
    outputs, seen = network.apply(parameters, inputs)
    some, same = network.apply(parameters, inputs, slice(20, None))
    np.testing.assert_allclose(some, outputs[20:], rtol=1e-5, atol=1e-6)
    assert same_bits(seen, same)


def test_folded_by_hand() -> None:
    """With means (1, 12), (2.5) and variances (4, 9), (16), up to EPSILON.

    A row (3, 15): ((3 - 1) / 2, 2 (15 - 12) / 3 + 1) = (1, 3); hidden 1 + 6 + 0.5 = 7.5, then
    4 (7.5 - 2.5) / 4 + 0.25 = 5.25; output 3 * 5.25 - 1 = 14.75.
    """
    statistics = (
        Moments(jnp.array([1.0, 12.0]), jnp.array([4.0, 9.0])),
        Moments(jnp.array([2.5]), jnp.array([16.0])),
    )
    layers = folded(affine_network(), statistics)
    output = mlp((2, 1, 1)).apply(layers, jnp.array([[3.0, 15.0]]))
    np.testing.assert_allclose(output, [[14.75]], rtol=1e-3)


def test_folded_with_a_batchs_statistics_equals_the_pass_of_that_batch() -> None:
    network = normed_mlp((5, 16, 16, 3))
    key_network, key_norms, key_inputs = jax.random.split(KEY, 3)
    parameters = quick_jit(network.init)(key_network)
    noise = iter(jax.random.split(key_norms, 12))
    norms = jax.tree.map(
        lambda leaf: leaf + jax.random.normal(next(noise), leaf.shape), parameters.norms
    )
    parameters = parameters._replace(norms=norms)
    inputs = 3 + 10 * jax.random.normal(key_inputs, (50, 5))
    outputs, seen = network.apply(parameters, inputs)
    plain = mlp((5, 16, 16, 3)).apply(folded(parameters, seen), inputs)
    np.testing.assert_allclose(plain, outputs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("make", [normed_mlp, normed_residual])
def test_where_statistics_are_fixed_inputs_are_normalised_first(
    make: Callable[[tuple[int, ...]], NormedNetwork],
) -> None:
    """As in the pass of a batch. Folded, the first product is of a thousand and not of about one,
    and rounds so much more; on a GPU, which rounds to a thousandth, nothing would be left."""
    network = make((5, 16, 16, 3))
    parameters = network.init(KEY)
    inputs = 1000 + 0.1 * jax.random.normal(KEY, (50, 5))
    outputs, seen = network.apply(parameters, inputs)
    fixed = network.fixed(parameters, seen, inputs)
    plain = network.plain.apply(network.folded(parameters, seen), inputs)
    np.testing.assert_allclose(fixed, plain, atol=1e-2)
    off, off_folded = (float(jnp.max(jnp.abs(found - outputs))) for found in (fixed, plain))
    assert off < 1.5e-3 < off_folded


def test_stacked_networks_fold_as_each_alone() -> None:
    network = normed_mlp((5, 8, 3))
    both = jax.vmap(network.init)(jax.random.split(KEY, 2))
    _, seen = stacked(network.apply)(both, jax.random.normal(KEY, (50, 5)))
    one = jax.tree.map(lambda leaf: leaf[1], (both, seen))
    second = jax.tree.map(lambda leaf: leaf[1], folded(both, seen))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), second, folded(*one))


def test_without_batch_norm_it_is_a_plain_mlp() -> None:
    network = normed_mlp((5, 8, 3), batch_norm=False, unit_norm=False)
    parameters = network.init(KEY)
    inputs = jax.random.normal(KEY, (50, 5))
    outputs, seen = network.apply(parameters, inputs)
    assert seen == network.statistics() == ()
    assert same_bits(outputs, mlp((5, 8, 3)).apply(mlp((5, 8, 3)).init(KEY), inputs))
    assert same_bits(folded(parameters, seen), parameters.layers)


def test_columns_of_norm_one_by_hand() -> None:
    """Columns (3, 4 | 0) and (0, 1 | 2) have norms 5 and sqrt(5). Without its bias the second has
    norm 1; behind it in the last layer the bias stays."""
    layer = Layer(jnp.array([[3.0, 0.0], [4.0, 1.0]]), jnp.array([0.0, 2.0]))
    layers = (layer, layer._replace(bias=None), layer)
    projected = at_norm_one(NormedMlp(layers, norms=())).layers
    root = 5**0.5
    np.testing.assert_allclose(projected[0].weight, [[0.6, 0.0], [0.8, 1 / root]], rtol=1e-6)
    np.testing.assert_allclose(projected[0].bias, [0.0, 2 / root], rtol=1e-6)
    assert projected[1].bias is None
    for own in projected[1:]:
        np.testing.assert_allclose(own.weight, [[0.6, 0.0], [0.8, 1.0]], rtol=1e-6)
    np.testing.assert_array_equal(projected[2].bias, [0.0, 2.0])


def test_in_front_of_a_norm_there_is_no_bias() -> None:
    *hidden, last = normed_mlp((5, 8, 8, 3)).init(KEY).layers
    assert [layer.bias for layer in hidden] == [None, None]
    np.testing.assert_array_equal(last.bias, 0.0)
    layers = normed_mlp((5, 8, 3), batch_norm=False).init(KEY).layers
    assert all(layer.bias is not None for layer in layers)


def test_first_weights_are_orthogonal() -> None:
    """Rows where they are fewer than columns; products of one with itself are the squared gain."""
    wide, narrow = normed_mlp((5, 8, 3), unit_norm=False).init(KEY).layers
    np.testing.assert_allclose(wide.weight @ wide.weight.T, 2 * np.eye(5), atol=1e-5)
    np.testing.assert_allclose(narrow.weight.T @ narrow.weight, 2 * np.eye(3), atol=1e-5)


def test_first_weights_of_a_square_are_orthogonal_too() -> None:
    """Its smallest singular value starts near zero: the worst case of the iteration. Drawn from all
    alike, they have no preferred sign: neither their numbers nor their determinants."""
    weights = jax.vmap(lambda key: orthogonal(key, (64, 64)))(jax.random.split(KEY, 50))
    squares = jnp.matmul(weights, weights.swapaxes(1, 2))
    np.testing.assert_allclose(squares, np.broadcast_to(np.eye(64), (50, 64, 64)), atol=1e-5)
    first = 8 * weights[:, 0]  # 3200 numbers, whose squares have a mean of 1
    assert abs(float(jnp.mean(first))) < 4 / 3200**0.5
    determinants = np.linalg.det(np.asarray(weights, np.float64))
    assert 10 < np.count_nonzero(determinants > 0) < 40


def test_behind_batch_norm_the_norm_of_a_unit_has_no_effect() -> None:
    network = normed_mlp((5, 8, 3))
    parameters = network.init(KEY)
    hidden, last = at_norm_one(parameters).layers
    inputs = 10 * jax.random.normal(KEY, (50, 5))
    projected = parameters._replace(layers=(hidden, parameters.layers[1]))
    np.testing.assert_allclose(
        network.apply(projected, inputs)[0], network.apply(parameters, inputs)[0], atol=2e-2
    )
    assert last.weight.shape == (8, 3)


def test_running_statistics_by_hand() -> None:
    start = (Moments(jnp.array([0.0]), jnp.array([1.0])),)
    seen = (Moments(jnp.array([10.0]), jnp.array([3.0])),)
    after = running(running(start, seen, 0.1), seen, 0.1)
    # 0.1 * 10 = 1, then 1 + 0.1 * 9 = 1.9; 1 + 0.1 * 2 = 1.2, then 1.2 + 0.1 * 1.8 = 1.38
    np.testing.assert_allclose(after[0].mean, [1.9], rtol=1e-6)
    np.testing.assert_allclose(after[0].variance, [1.38], rtol=1e-6)
