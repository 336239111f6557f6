"""The floor under the effective sample size of a batch's weights."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lfiw.ratio import effective_sample_size, ratio_weights, with_floor

HOSTILE = {
    "one huge": [1e30, *[0.0] * 255],
    "one tiny": [-1e30, *[0.0] * 255],
    "all equal": [3.0] * 256,
    "infinite": [math.inf, -math.inf, *[0.0] * 254],
    "all infinite": [math.inf] * 256,
    "spread out": list(np.linspace(-200, 200, 256)),
    "a batch of one": [7.0],
    "a batch of two": [-50.0, 50.0],
}


@pytest.mark.parametrize(
    ("weights", "floor", "trust", "expected"),
    [
        # The spread is (9 + 1 + 1 + 1) / 4 = 3, so the trust sqrt((2 - 1) / 3).
        ([4.0, 0.0, 0.0, 0.0], 0.5, 0.57735, [2.73205, 0.42265, 0.42265, 0.42265]),
        # sqrt((1 / 0.64 - 1) / 3) = sqrt(0.1875)
        ([4.0, 0.0, 0.0, 0.0], 0.64, 0.433013, [2.299038, 0.566987, 0.566987, 0.566987]),
        ([4.0, 0.0, 0.0, 0.0], 0.2, 1.0, [4.0, 0.0, 0.0, 0.0]),  # 0.25 is above it
        ([0.5, 1.5], 0.7, 1.0, [0.5, 1.5]),  # 1 / (1 + 0.25) = 0.8 is above it
        ([0.5, 1.5], 0.9, 2 / 3, [2 / 3, 4 / 3]),  # sqrt((1 / 9) / 0.25)
    ],
)
def test_by_hand(weights: list[float], floor: float, trust: float, expected: list[float]) -> None:
    mixed, share = with_floor(jnp.array(weights), floor)
    np.testing.assert_allclose(share, trust, rtol=1e-5)
    np.testing.assert_allclose(mixed, expected, rtol=1e-5)


@pytest.mark.parametrize("logits", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("transform", ["sigmoid", "power"])
@pytest.mark.parametrize("floor", [0.0, 1e-6, 0.3, 0.6, 0.999, 1.0])
def test_it_holds_for_hostile_logits(logits: list[float], transform: str, floor: float) -> None:
    raw = ratio_weights(jnp.array(logits, jnp.float32), 5.0, transform)
    weights, trust = jax.jit(with_floor)(raw, jnp.float32(floor))
    assert np.all(np.isfinite(weights)) and np.all(weights >= 0) and 0 <= trust <= 1
    np.testing.assert_allclose(np.mean(weights), 1.0, rtol=1e-5)
    size = effective_sample_size(weights)
    assert size >= floor * (1 - 1e-5)
    if trust < 1:  # no more of the uniform weights than it takes
        np.testing.assert_allclose(size, floor, rtol=1e-5)


def test_the_limits_are_the_given_weights_and_uniform_ones_to_the_bit() -> None:
    raw = ratio_weights(jnp.linspace(-40.0, 10.0, 256), 5.0, "sigmoid")
    np.testing.assert_array_equal(jax.jit(with_floor)(raw, jnp.float32(0))[0], raw)
    np.testing.assert_array_equal(jax.jit(with_floor)(raw, jnp.float32(1))[0], np.ones(256))


def test_it_keeps_the_order_and_the_bound_of_the_mixture() -> None:
    raw = ratio_weights(jnp.linspace(-40.0, 10.0, 256), 5.0, "sigmoid")
    weights, trust = with_floor(raw, 0.8)
    assert np.all(np.diff(weights) >= 0)
    assert np.min(weights) >= 1 - trust > 0


def test_it_has_no_gradient() -> None:
    def loss(logits: jax.Array) -> jax.Array:
        return jnp.sum(jnp.square(with_floor(ratio_weights(logits, 5.0, "sigmoid"), 0.9)[0]))

    np.testing.assert_array_equal(jax.grad(loss)(jnp.linspace(-40.0, 10.0, 8)), np.zeros(8))
