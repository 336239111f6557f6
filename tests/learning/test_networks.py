import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import quick_jit

from lfiw.networks import (
    Layer,
    Mlp,
    apply_critics,
    apply_mlp,
    init_mlp,
    init_twin_critics,
    named_arrays,
)


def make(*sizes: int, last_limit: float | None = None) -> Mlp:
    return quick_jit(lambda key: init_mlp(key, sizes, last_limit))(jax.random.key(0))


def test_mlp_by_hand() -> None:
    network = (
        Layer(jnp.array([[1.0, -1.0], [2.0, 0.0]]), jnp.array([0.0, -1.0])),
        Layer(jnp.array([[1.0], [10.0]]), jnp.array([-7.0])),
    )
    # hidden: (1 + 4, -1 - 1) = (5, -2), after ReLU (5, 0); output 5 - 7, without ReLU
    # hidden: (-3, 3 - 1) = (-3, 2), after ReLU (0, 2); output 20 - 7
    outputs = apply_mlp(network, jnp.array([[1.0, 2.0], [-3.0, 0.0]]))
    np.testing.assert_array_equal(outputs, [[-2.0], [13.0]])


def test_critics_by_hand() -> None:
    weight = jnp.array([[[1.0], [2.0]], [[0.0], [-1.0]]])  # q1 = s + 2 a + 3, q2 = -a
    critics = (Layer(weight, jnp.array([[3.0], [0.0]])),)
    q = apply_critics(critics, jnp.array([[1.0], [5.0]]), jnp.array([[0.5], [-0.5]]))
    np.testing.assert_array_equal(q, [[5.0, 7.0], [-0.5, 0.5]])


def test_twin_critics_are_two_different_networks_run_side_by_side() -> None:
    critics = quick_jit(lambda key: init_twin_critics(key, 5, (8,)))(jax.random.key(0))
    inputs = jnp.asarray(np.random.default_rng(0).standard_normal((4, 5), np.float32))
    both = apply_critics(critics, inputs[:, :3], inputs[:, 3:])
    assert both.shape == (2, 4)
    for index in range(2):
        alone = jax.tree.map(
            lambda array, index=index: jnp.asarray(np.asarray(array)[index]), critics
        )
        np.testing.assert_allclose(
            both[index], apply_mlp(alone, inputs)[:, 0], rtol=1e-4, atol=1e-6
        )
    for array in map(np.asarray, jax.tree.leaves(critics)):
        assert np.all(array[0] != array[1])


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
    network = make(3, 4, 1)
    arrays = named_arrays(network, "policy")
    assert list(arrays) == [
        "policy.0.weight",
        "policy.0.bias",
        "policy.1.weight",
        "policy.1.bias",
    ]
    assert arrays["policy.1.weight"] is network[1].weight
    assert arrays["policy.0.bias"] is network[0].bias
