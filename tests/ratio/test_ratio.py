import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from programs import quick_jit

from lfiw.ratio import Ratio, RatioConfig, RatioState, make_ratio, ratio_weights
from lfiw.ratio.divergences import DIVERGENCES

TRANSFORMS = ("power", "sigmoid")
SHIFT = 0.5  # fast is N(SHIFT, 1), slow is N(0, 1)
POINTS = jnp.linspace(-1.5, 2.0, 15)[:, None]


def train(ratio: Ratio, shift: float, updates: int = 400, batch: int = 512) -> RatioState:
    def update(state: RatioState, data: Array) -> tuple[RatioState, None]:
        slow, fast = data
        return ratio.update(state, slow, fast + shift)[0], None

    data = np.random.default_rng(0).standard_normal((updates, 2, batch, 1), np.float32)
    state = quick_jit(ratio.init)(jax.random.key(0))
    return jax.jit(lambda state, data: jax.lax.scan(update, state, data)[0])(state, data)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_known_ratio_of_two_gaussians(divergence: str) -> None:
    config = RatioConfig(hidden_sizes=(16,), divergence=divergence)
    ratio = make_ratio(config, input_size=1, default_learning_rate=3e-3)
    found = ratio.logits(train(ratio, SHIFT), POINTS)
    # log of exp(-(x - m)^2 / 2) / exp(-x^2 / 2) = m x - m^2 / 2
    truth = SHIFT * POINTS[:, 0] - SHIFT**2 / 2
    np.testing.assert_allclose(found, truth, atol=0.15)


def test_identical_memories_give_weights_near_one() -> None:
    ratio = make_ratio(RatioConfig(hidden_sizes=(16,)), 1, default_learning_rate=1e-3)
    logits = ratio.logits(train(ratio, shift=0.0, updates=200), POINTS)
    for transform in TRANSFORMS:
        weights = ratio_weights(logits, temperature=1.0, transform=transform)
        np.testing.assert_allclose(weights, 1.0, atol=0.1)


def test_weights_start_uniform() -> None:
    ratio = make_ratio(RatioConfig(hidden_sizes=(64, 64)), 1, default_learning_rate=1e-3)
    logits = ratio.logits(quick_jit(ratio.init)(jax.random.key(0)), POINTS)
    np.testing.assert_allclose(logits, 0.0, atol=0.05)
    assert np.ptp(logits) > 0


def test_update_returns_the_logits_from_before_its_step() -> None:
    ratio = make_ratio(RatioConfig(hidden_sizes=(8,)), 1, default_learning_rate=0.1)
    state = quick_jit(ratio.init)(jax.random.key(0))
    slow, fast = jnp.array([[0.0], [1.0], [-1.0]]), jnp.array([[2.0], [3.0]])
    new_state, logits, fast_logits = quick_jit(ratio.update)(state, slow, fast)
    np.testing.assert_allclose(logits, ratio.logits(state, slow), rtol=1e-4, atol=1e-6)
    assert np.all(np.abs(logits - ratio.logits(new_state, slow)) > 0.01)
    np.testing.assert_allclose(fast_logits, ratio.logits(state, fast), rtol=1e-4, atol=1e-6)


def test_metrics_by_hand() -> None:
    metrics = make_ratio(RatioConfig(), 1, 1e-3).metrics(
        jnp.log(jnp.array([3.0, 0.5, 1.0 / 3, 1.0 / 9])), jnp.log(jnp.array([3.0, 1.0 / 3]))
    )
    # E_slow log((1 + w) / 2) + E_fast log((1 + 1/w) / 2)
    slow = math.log(2 * 0.75 * (2 / 3) * (5 / 9)) / 4
    fast = math.log((2 / 3) * 2) / 2
    np.testing.assert_allclose(metrics["classifier_loss"], slow + fast, rtol=1e-4)
    # 3 of 4 slow logits are negative, 1 of 2 fast ones is positive
    np.testing.assert_allclose(metrics["balanced_accuracy"], 0.625)


@pytest.mark.parametrize(("own", "expected"), [(None, 0.25), (0.5, 0.5)])
def test_learning_rate_is_the_agents_unless_given(own: float | None, expected: float) -> None:
    ratio = make_ratio(RatioConfig(hidden_sizes=(), learning_rate=own), 1, 0.25)
    state = quick_jit(ratio.init)(jax.random.key(0))
    new_state, _, _ = quick_jit(ratio.update)(state, jnp.array([[-1.0]]), jnp.array([[1.0]]))
    # The first step of Adam is the learning rate, whatever the gradient.
    step = new_state.network[0].weight - state.network[0].weight
    np.testing.assert_allclose(step, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("transform", "temperature", "logits", "expected"),
    [
        # w = (1, 9), w^(1/2) = (1, 3), mean 2
        ("power", 2.0, [0.0, math.log(9)], [0.5, 1.5]),
        ("power", 1.0, [math.log(2), 0.0, math.log(3)], [1.0, 0.5, 1.5]),
        # sigmoid(0) = 1/2, sigmoid(log 3) = 3/4, mean 5/8
        ("sigmoid", 1.0, [0.0, math.log(3)], [0.8, 1.2]),
        ("sigmoid", 2.0, [0.0, 2 * math.log(3)], [0.8, 1.2]),
    ],
)
def test_weights_by_hand(
    transform: str, temperature: float, logits: list[float], expected: list[float]
) -> None:
    weights = ratio_weights(jnp.array(logits), temperature, transform)
    np.testing.assert_allclose(weights, expected, rtol=1e-5)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("temperature", [1.0, 5.0])
@pytest.mark.parametrize(
    "logits",
    [
        [-1e4, 1e4, 0.0, 1.0],
        [-1e4, -1e4, -9e3, -8e3],
        [math.inf, 0.0, -math.inf, 1.0],
        list(np.linspace(-30, 30, 250)),
    ],
)
def test_weights_are_finite_with_mean_one(
    transform: str, temperature: float, logits: list[float]
) -> None:
    weights = np.asarray(ratio_weights(jnp.array(logits), temperature, transform))
    assert np.all(np.isfinite(weights)) and np.all(weights >= 0)
    np.testing.assert_allclose(np.mean(weights), 1.0, atol=1e-5)
    order = np.argsort(logits)
    assert np.all(np.diff(weights[order]) >= 0) and weights[order[-1]] > weights[order[0]]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("logit", [-math.inf, -1e4, 0.0, 1e4, math.inf])
def test_equal_logits_give_ones(transform: str, logit: float) -> None:
    np.testing.assert_array_equal(ratio_weights(jnp.full(4, logit), 1.0, transform), 1.0)


def test_sigmoid_is_at_most_twice_the_weight_at_zero() -> None:
    at_zero, low, high = ratio_weights(jnp.array([0.0, -1e4, 1e4]), 1.0, "sigmoid")
    np.testing.assert_allclose(high / at_zero, 2.0, rtol=1e-6)
    assert low == 0
    unbounded = ratio_weights(jnp.array([0.0, 5.0]), 1.0, "power")
    assert unbounded[1] / unbounded[0] > 100


@pytest.mark.parametrize(
    ("transform", "expected"),
    # w = (1, 4 after clipping, 1/8): 41/24 on average; sigmoid 1/2, 4/5, 1/9: 127/270
    [("power", [24 / 41, 96 / 41, 3 / 41]), ("sigmoid", [135 / 127, 216 / 127, 30 / 127])],
)
def test_ratios_are_clipped_from_above(transform: str, expected: list[float]) -> None:
    logits = jnp.log(jnp.array([1.0, 100.0, 0.125]))
    weights = ratio_weights(logits, 1.0, transform, max_ratio=jnp.float32(4.0))
    np.testing.assert_allclose(weights, expected, rtol=1e-5)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("batch", [100, 256])
def test_infinite_temperature_gives_ones_exactly(transform: str, batch: int) -> None:
    weights = ratio_weights(jnp.linspace(-50, 50, batch), 1e30, transform)
    np.testing.assert_array_equal(weights, 1.0)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_weights_carry_no_gradient(transform: str) -> None:
    logits = jnp.array([0.0, 1.0, -2.0])
    gradient = jax.grad(lambda z: jnp.sum(jnp.arange(3.0) * ratio_weights(z, 1.0, transform)))
    np.testing.assert_array_equal(gradient(logits), 0.0)


@pytest.mark.parametrize("batch", [41, 97, 249])
def test_equal_weights_are_exactly_one_for_every_batch_size(batch: int) -> None:
    """(1 / B) * B is not 1 in float32 for these sizes."""
    weights = ratio_weights(jnp.linspace(-50, 50, batch), 1e30, "power")
    np.testing.assert_array_equal(weights, 1.0)


def test_a_snapshot_keeps_the_network() -> None:
    ratio = make_ratio(RatioConfig(hidden_sizes=(4,)), 3, 1e-3)
    state = quick_jit(ratio.init)(jax.random.key(0))
    arrays = ratio.arrays(state)
    assert {name: array.shape for name, array in arrays.items()} == {
        "ratio.0.weight": (3, 4),
        "ratio.0.bias": (4,),
        "ratio.1.weight": (4, 1),
        "ratio.1.bias": (1,),
    }


def test_products_by_hand() -> None:
    """A slow and a fast row: forward 3 x 4 + 4 x 1 = 16, by the weights 16, by the hidden 4."""
    assert make_ratio(RatioConfig(hidden_sizes=(4,)), 3, 1e-3).products == 2 * (16 + 16 + 4)
