import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import quick_jit

from lfiw.networks import Layer, Mlp, mlp, twins


def make(*sizes: int, last_limit: float | None = None) -> Mlp:
    return quick_jit(mlp(sizes, last_limit).init)(jax.random.key(0))


def test_mlp_by_hand() -> None:
    layers = (
        Layer(jnp.array([[1.0, -1.0], [2.0, 0.0]]), jnp.array([0.0, -1.0])),
        Layer(jnp.array([[1.0], [10.0]]), jnp.array([-7.0])),
    )
    # hidden: (1 + 4, -1 - 1) = (5, -2), after ReLU (5, 0); output 5 - 7, without ReLU
    # hidden: (-3, 3 - 1) = (-3, 2), after ReLU (0, 2); output 20 - 7
    outputs = mlp((2, 2, 1)).apply(layers, jnp.array([[1.0, 2.0], [-3.0, 0.0]]))
    np.testing.assert_array_equal(outputs, [[-2.0], [13.0]])


def test_twins_by_hand() -> None:
    weight = jnp.array([[[1.0], [2.0]], [[0.0], [-1.0]]])  # x + 2 y + 3, and -y
    both = (Layer(weight, jnp.array([[3.0], [0.0]])),)
    outputs = twins(mlp((2, 1))).apply(both, jnp.array([[1.0, 0.5], [5.0, -0.5]]))
    np.testing.assert_array_equal(outputs[..., 0], [[5.0, 7.0], [-0.5, 0.5]])


def test_twins_are_two_different_networks_run_side_by_side() -> None:
    network = mlp((5, 8, 1))
    both = quick_jit(twins(network).init)(jax.random.key(0))
    inputs = jnp.asarray(np.random.default_rng(0).standard_normal((4, 5), np.float32))
    outputs = twins(network).apply(both, inputs)
    assert outputs.shape == (2, 4, 1)
    for index in range(2):
        alone = jax.tree.map(lambda array, index=index: array[index], both)
        np.testing.assert_allclose(
            outputs[index], network.apply(alone, inputs), rtol=1e-4, atol=1e-6
        )
    for array in map(np.asarray, jax.tree.leaves(both)):
        assert np.all(array[0] != array[1])


def test_products_by_hand() -> None:
    """3 x 4 + 4 x 2 forward; back, both again by their weights and the second by its input."""
    network = mlp((3, 4, 2))
    assert (network.products, network.input_products, network.output_products) == (20, 12, 8)
    assert network.trained_products == 48
    both = twins(network)
    assert (both.products, both.input_products, both.output_products) == (40, 24, 16)
    assert both.trained_products == 96


@pytest.mark.parametrize("last_limit", [None, 3e-3])
def test_initial_values_fill_their_range(last_limit: float | None) -> None:
    hidden, last = make(16, 64, 32, last_limit=last_limit)
    # 1 / sqrt(16) and 1 / sqrt(64)
    for layer, limit in ((hidden, 0.25), (last, last_limit or 0.125)):
        for array in layer:
            assert 0.8 * limit < np.max(np.abs(array)) <= limit
            assert abs(np.mean(array)) < 0.25 * limit
    assert hidden.weight.shape == (16, 64) and last.bias.shape == (32,)


def test_layers_start_from_different_keys() -> None:
    first, second = jax.device_get(make(4, 4, 4))
    assert np.all(first.weight != second.weight)
    assert np.all(first.bias != second.bias)
    assert np.all(first.bias != first.weight[0])


def test_names_of_arrays() -> None:
    layers = make(3, 4, 1)
    arrays = mlp((3, 4, 1)).arrays(layers, "policy")
    assert list(arrays) == [
        "policy.0.weight",
        "policy.0.bias",
        "policy.1.weight",
        "policy.1.bias",
    ]
    assert arrays["policy.1.weight"] is layers[1].weight
    assert arrays["policy.0.bias"] is layers[0].bias
