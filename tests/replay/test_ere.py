from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import draw_sample, make_context, random_rows, same_bits

from lfiw.replay.base import Replay
from lfiw.replay.ere import EreConfig, ere_window, make_ere
from lfiw.replay.uniform import UniformConfig, make_uniform
from lfiw.types import Clock, EnvSpec

SPEC = EnvSpec(obs_size=1, action_size=1)
HORIZON = 1000


def clock(env_steps: int, updates: int) -> Clock:
    return Clock(jnp.int32(env_steps), jnp.int32(updates), min(env_steps / HORIZON, 1.0))


@pytest.mark.parametrize(
    ("env_steps", "updates", "expected"),
    [
        (0, 0, 996_000.0),  # k = 1: 1e6 * 0.996
        (0, 499, 134_791.9),  # k = 500: 1e6 * 0.996^500
        (0, 999, 18_168.9),  # k = 1000
        (0, 1000, 996_000.0),  # the next cycle
        (0, 7_499, 134_791.9),
        (500, 999, 135_064.5),  # halfway eta is 0.998
        (1000, 0, 1e6),  # at the end eta is 1
        (1000, 999, 1e6),
    ],
)
def test_window_by_hand(env_steps: int, updates: int, expected: float) -> None:
    context = make_context(SPEC, 1, buffer_size=1_000_000)
    window = ere_window(EreConfig(), context, clock(env_steps, updates))
    np.testing.assert_allclose(window, expected, rtol=1e-3)


def test_exponent_runs_over_a_thousand_whatever_the_cycle() -> None:
    context = make_context(SPEC, 1, buffer_size=1_000_000)
    config = EreConfig(cycle_updates=4, eta_end=0.996)
    windows = [float(ere_window(config, context, clock(0, updates))) for updates in range(5)]
    expected = 1e6 * 0.996 ** np.array([250.0, 500.0, 750.0, 1000.0, 250.0])
    np.testing.assert_allclose(windows, expected, rtol=1e-3)


def test_window_is_never_below_its_minimum() -> None:
    context = make_context(SPEC, 1, buffer_size=1_000_000)
    window = ere_window(EreConfig(eta=0.99), context, clock(0, 999))  # 1e6 * 0.99^1000 = 43
    assert window == 5000


def make(capacity: int, buffer_size: int | None = None, **settings: Any) -> Replay:
    sizes = {"buffer_size": buffer_size or capacity, "batch_size": 1000}
    context = make_context(SPEC, capacity, **sizes)
    return make_ere(EreConfig(**settings), context)


@pytest.mark.parametrize(("updates", "expected"), [(0, 50), (1, 25), (2, 12), (3, 10)])
def test_draws_come_from_the_window(updates: int, expected: int) -> None:
    # N = 101, eta^(1000 / 4) = 1/2: 50.5, 25.25, 12.6 and 6.3, but at least 10
    replay = make(100, buffer_size=101, eta=0.5 ** (1 / 250), min_window=10, cycle_updates=4)
    state = replay.add(replay.init(jax.random.key(0)), random_rows(0, 100, SPEC))
    state = replay.add(state, random_rows(1, 30, SPEC))
    _, sample, metrics = draw_sample(replay, state, jax.random.key(1), clock(0, updates))
    assert int(metrics["window"]) == expected
    ages = (29 - np.asarray(sample.slots)) % 100
    assert set(ages) == set(range(expected))
    assert np.all(sample.weights == 1) and np.all(sample.policy_weights == 1)


def test_window_is_capped_by_what_is_stored() -> None:
    replay = make(100, min_window=80)
    state = replay.add(replay.init(jax.random.key(0)), random_rows(0, 20, SPEC))
    _, sample, metrics = draw_sample(replay, state, jax.random.key(1), clock(0, 999))
    assert metrics["window"] == 20
    assert set(np.asarray(sample.slots)) == set(range(20))


@pytest.mark.parametrize("updates", [0, 499, 999])
@pytest.mark.parametrize(("eta", "env_steps"), [(1.0, 0), (1.0, 300), (0.996, HORIZON)])
def test_eta_one_is_uniform(eta: float, env_steps: int, updates: int) -> None:
    ere = make(64, eta=eta, min_window=1)
    uniform = make_uniform(UniformConfig(), make_context(SPEC, 64, batch_size=1000))
    state = ere.add(ere.init(jax.random.key(0)), random_rows(0, 50, SPEC))
    key, now = jax.random.key(1), clock(env_steps, updates)
    drawn, expected = (draw_sample(replay, state, key, now)[:2] for replay in (ere, uniform))
    assert same_bits(drawn, expected)
