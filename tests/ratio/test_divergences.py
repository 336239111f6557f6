import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lfiw.ratio.divergences import DIVERGENCES, LOGIT_LIMIT, Divergence

# f of each divergence; a new one fails here until its f is given.
FUNCTIONS: dict[str, Callable] = {
    "jensen-shannon": lambda u: u * jnp.log(u) - (1 + u) * jnp.log((1 + u) / 2),
    "kl": lambda u: u * jnp.log(u),
    "pearson": lambda u: (u - 1) ** 2,
    "hellinger": lambda u: (jnp.sqrt(u) - 1) ** 2,
}


@pytest.fixture(params=DIVERGENCES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def divergence(name: str) -> Divergence:
    return DIVERGENCES[name]


def slope(divergence: Divergence, logit: float, ratio: float = 1.0) -> float:
    """Derivative of the loss of a point that is `ratio` times likelier under fast."""
    loss = lambda z: divergence.on_slow(z) + ratio * divergence.on_fast(z)  # noqa: E731
    return float(jax.grad(loss)(jnp.float32(logit)))


@pytest.mark.parametrize(
    ("name", "ratio", "on_slow", "on_fast"),
    [
        ("jensen-shannon", 1.0, 0.0, 0.0),
        ("jensen-shannon", 3.0, math.log(2), -math.log(1.5)),
        ("jensen-shannon", 0.25, math.log(0.625), -math.log(0.4)),
        ("kl", 1.0, 1.0, -1.0),
        ("kl", 4.0, 4.0, -1 - math.log(4)),
        ("kl", 0.25, 0.25, -1 + math.log(4)),
        ("pearson", 1.0, 0.0, 0.0),
        ("pearson", 4.0, 15.0, -6.0),
        ("pearson", 0.25, -0.9375, 1.5),
        ("hellinger", 1.0, 0.0, 0.0),
        ("hellinger", 4.0, 1.0, -0.5),
        ("hellinger", 0.25, -0.5, 1.0),
    ],
)
def test_terms_by_hand(name: str, ratio: float, on_slow: float, on_fast: float) -> None:
    logit = jnp.float32(math.log(ratio))
    np.testing.assert_allclose(DIVERGENCES[name].on_slow(logit), on_slow, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(DIVERGENCES[name].on_fast(logit), on_fast, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ratio", [0.1, 1.0, 2.5, 10.0])
def test_terms_follow_from_f(name: str, divergence: Divergence, ratio: float) -> None:
    f, u = FUNCTIONS[name], jnp.float32(ratio)
    derivative = jax.grad(f)(u)
    # The supremum in f*(t) = sup_u (u t - f(u)) is reached where f'(u) = t.
    conjugate = u * derivative - f(u)
    logit = jnp.log(u)
    np.testing.assert_allclose(divergence.on_fast(logit), -derivative, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(divergence.on_slow(logit), conjugate, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ratio", [0.2, 1.0, 7.0])
def test_loss_is_least_at_the_true_ratio(divergence: Divergence, ratio: float) -> None:
    best = math.log(ratio)
    np.testing.assert_allclose(slope(divergence, best, ratio), 0.0, atol=1e-4)
    assert slope(divergence, best + 0.1, ratio) > 0
    assert slope(divergence, best - 0.1, ratio) < 0


@pytest.mark.parametrize("logit", [-1e4, 1e4])
def test_finite_for_large_logits(divergence: Divergence, logit: float) -> None:
    assert np.isfinite(divergence.on_slow(jnp.float32(logit)))
    assert np.isfinite(divergence.on_fast(jnp.float32(logit)))


@pytest.mark.parametrize("beyond", [1.0, 1e4])
def test_logits_beyond_the_limit_are_pulled_back(divergence: Divergence, beyond: float) -> None:
    assert 0 < slope(divergence, LOGIT_LIMIT + beyond) < math.inf
    assert 0 > slope(divergence, -LOGIT_LIMIT - beyond) > -math.inf
