import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import quick_jit, same_bits

from lfiw.acting.networks import numpy_network
from lfiw.errors import InputError
from lfiw.networks import Layer, stacked
from lfiw.networks.normed import Moments, Norm
from lfiw.networks.residual import (
    Block,
    BlockNorms,
    NormedResidual,
    Residual,
    folded,
    normed_residual,
    projected,
    residual,
)

KEY = jax.random.key(0)
SIZES = (5, 8, 8, 3)


def one_block(first: float, bias: float | None) -> Residual:
    """One input, a block of two, one output; of the eight units of the block only one counts."""
    widening = jnp.zeros((2, 8)).at[0, 0].set(1.0).at[1, 0].set(first)
    narrowing = jnp.zeros((8, 2)).at[0, 0].set(2.0).at[0, 1].set(-1.0)

    def biases(*values: float) -> jax.Array | None:
        return None if bias is None else bias * jnp.array(values)

    return Residual(
        embedding=Layer(jnp.array([[1.0, 2.0]]), biases(0.0, 1.0)),
        blocks=(Block(Layer(widening, biases(*[-1.0] * 8)), Layer(narrowing, biases(0.0, 0.0))),),
        head=Layer(jnp.array([[1.0], [1.0]]), jnp.array([-1.0])),
    )


def test_residual_by_hand() -> None:
    """Embedded: (1, 3). Widened: 1 + 3 - 1 = 3 in front, and -1, whose ReLU is 0. Narrowed: 6 and
    -3, so that (6, 0) is added: (7, 3), whose mean square is 29. Output: 10 / sqrt(29) - 1."""
    network = residual((1, 2, 1))
    layers = one_block(first=1.0, bias=1.0)
    expected = [[10 / 29**0.5 - 1]]
    np.testing.assert_allclose(network.apply(layers, jnp.ones((1, 1))), expected, rtol=1e-5)
    arrays = jax.device_get(network.arrays(layers, "policy"))
    twin = numpy_network(arrays, "policy")
    np.testing.assert_allclose(twin(np.ones((1, 1), np.float32)), expected, rtol=1e-5)
    assert (twin.input_size, twin.output_size) == (1, 1)


def test_a_batch_is_normalised_by_its_own_statistics() -> None:
    """Inputs 0 and 2 are -1 and 1, up to EPSILON; embedded (-1, -2) and (1, 2). The block's unit
    has -1 and 1 once more: ReLU 0 and 1. Narrowed 0 and 2 in front, 0 and -1 behind: normalised
    (-1, 1) and (1, -1), and ReLU leaves (0, 1) and (1, 0). Sums: (-1, -1) and (2, 2), which are
    -1 and 1 over the roots of their mean squares. Scaled by (1, 3) and added: -4 and 4, less 1.
    """
    norms = BlockNorms(
        Norm(jnp.zeros(8), jnp.ones(8)),
        Norm(jnp.zeros(2), jnp.ones(2)),
    )
    parameters = NormedResidual(
        layers=one_block(first=0.0, bias=None),
        inputs=Norm(jnp.zeros(1), jnp.ones(1)),
        norms=(norms,),
        scale=jnp.array([1.0, 3.0]),
    )
    outputs, seen = normed_residual((1, 2, 1)).apply(parameters, jnp.array([[0.0], [2.0]]))
    np.testing.assert_allclose(outputs[:, 0], [-5.0, 3.0], atol=1e-3)
    of_inputs, widened, narrowed = seen
    np.testing.assert_allclose([of_inputs.mean, of_inputs.variance], [[1.0], [1.0]])
    np.testing.assert_allclose(widened.variance, [1.0, *[0.0] * 7], atol=1e-4)
    np.testing.assert_allclose(narrowed.mean, [1.0, -0.5], atol=1e-4)
    np.testing.assert_allclose(narrowed.variance, [1.0, 0.25], atol=1e-4)


def varied(key: jax.Array) -> NormedResidual:
    """Norms that scale and shift."""
    parameters = quick_jit(normed_residual(SIZES).init)(key)
    noise = iter(jax.random.split(key, 20))
    own = jax.tree.map(
        lambda leaf: leaf + jax.random.normal(next(noise), leaf.shape),
        (parameters.inputs, parameters.norms, parameters.scale),
    )
    return NormedResidual(parameters.layers, *own)


def test_folded_with_a_batchs_statistics_equals_the_pass_of_that_batch() -> None:
    inputs = 3 + 10 * jax.random.normal(KEY, (50, 5))
    parameters = varied(KEY)
    outputs, seen = normed_residual(SIZES).apply(parameters, inputs)
    assert len(seen) == 5  # inputs, and two in each block
    plain = folded(parameters, seen)
    np.testing.assert_allclose(residual(SIZES).apply(plain, inputs), outputs, rtol=1e-3, atol=1e-3)
    twin = numpy_network(jax.device_get(residual(SIZES).arrays(plain, "policy")), "policy")
    np.testing.assert_allclose(twin(np.asarray(inputs)), outputs, rtol=1e-3, atol=1e-3)


def test_stacked_networks_fold_as_each_alone() -> None:
    both = jax.vmap(varied)(jax.random.split(KEY, 2))
    _, seen = stacked(normed_residual(SIZES).apply)(both, jax.random.normal(KEY, (50, 5)))
    one = jax.tree.map(lambda leaf: leaf[1], (both, seen))
    second = jax.tree.map(lambda leaf: leaf[1], folded(both, seen))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), second, folded(*one)
    )


def test_norms_by_hand() -> None:
    """Weights (3, 4) of a unit become (0.6, 0.8). The norm of two features with scales (2, 4) and
    shifts (1, 2) has the squares 4 + 16 + 1 + 4 = 25, which become 2: all times sqrt(2) / 5. The
    scales (3, 4) of root mean squares have 25 as well. The head's bias stays."""
    norm = Norm(shift=jnp.array([1.0, 2.0]), scale=jnp.array([2.0, 4.0]))
    column = Layer(jnp.array([[3.0], [4.0]]), None)
    parameters = NormedResidual(
        layers=Residual(column, (Block(column, column),), column._replace(bias=jnp.array([9.0]))),
        inputs=norm,
        norms=(BlockNorms(norm, norm),),
        scale=jnp.array([3.0, 4.0]),
    )
    after = projected(parameters)
    factor = 2**0.5 / 5
    for layer in (after.layers.embedding, *after.layers.blocks[0], after.layers.head):
        np.testing.assert_allclose(layer.weight, [[0.6], [0.8]], rtol=1e-6)
    np.testing.assert_array_equal(after.layers.head.bias, [9.0])
    for own in (after.inputs, *after.norms[0]):
        np.testing.assert_allclose(own.shift, [factor, 2 * factor], rtol=1e-6)
        np.testing.assert_allclose(own.scale, [2 * factor, 4 * factor], rtol=1e-6)
    np.testing.assert_allclose(after.scale, [3 * factor, 4 * factor], rtol=1e-6)


def test_first_parameters() -> None:
    """Orthogonal weights of gain one; a bias only where no norm follows."""
    layers = normed_residual(SIZES).init(KEY).layers
    np.testing.assert_allclose(
        layers.embedding.weight @ layers.embedding.weight.T, np.eye(5), atol=1e-5
    )
    for block in layers.blocks:
        np.testing.assert_allclose(
            block.narrowing.weight.T @ block.narrowing.weight, np.eye(8), atol=1e-5
        )
        assert block.widening.weight.shape == (8, 32)
        assert block.widening.bias is None and block.narrowing.bias is None
    np.testing.assert_array_equal(layers.head.bias, np.zeros(3))
    first, second = layers.blocks
    assert np.all(first.widening.weight != second.widening.weight)


def test_rows_alone_are_those_of_all() -> None:
    """What is not asked for counts in the statistics all the same."""
    network = normed_residual(SIZES)
    parameters = network.init(KEY)
    inputs = jax.random.normal(KEY, (50, 5))
    outputs, seen = network.apply(parameters, inputs)
    some, same = network.apply(parameters, inputs, slice(20))
    np.testing.assert_allclose(some, outputs[:20], rtol=1e-5, atol=1e-6)
    assert same_bits(seen, same)


def test_products_by_hand() -> None:
    """5 x 8, two blocks of 8 x 32 and 32 x 8, and 8 x 3."""
    network = residual(SIZES)
    assert (network.products, network.input_products) == (40 + 2 * 512 + 24, 40)
    assert network.output_products == 24


@pytest.mark.parametrize("hidden", [(), (8, 16)])
def test_blocks_have_one_width(hidden: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="name it once for each block"):
        residual((5, *hidden, 3))


def test_statistics_begin_at_those_of_a_standard_normal() -> None:
    statistics = normed_residual(SIZES).statistics()
    assert [moments.mean.shape for moments in statistics] == [(5,), *2 * ((32,), (8,))]
    for moments in statistics:
        assert isinstance(moments, Moments)
        np.testing.assert_array_equal(moments.mean, 0.0)
        np.testing.assert_array_equal(moments.variance, 1.0)
