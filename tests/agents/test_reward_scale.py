from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from programs import quick_jit

from lfiw.agents.reward_scale import ReturnStatistics, init_returns, reward_scale, with_rows
from lfiw.types import EnvSpec

SPEC = EnvSpec(obs_size=1, action_size=1)
add = quick_jit(lambda statistics, rows: with_rows(statistics, rows, 0.5, SPEC))


def rows(*steps: tuple[float, float, float, float]) -> jnp.ndarray:
    """Packed rows of (obs, reward, discount, next_obs)."""
    return jnp.array(
        [[obs, 0.0, reward, discount, after] for obs, reward, discount, after in steps]
    )


# An episode that terminates, one that is cut off (its successor 7 is not what comes next), and the
# first step of a third, which goes on from there. G is 1, 2.5; 4, 2, 1, 8.5.
STEPS = (
    (0.0, 1.0, 1.0, 1.0),
    (1.0, 2.0, 0.0, 9.0),
    (0.0, 4.0, 1.0, 5.0),
    (5.0, 0.0, 1.0, 6.0),
    (6.0, 0.0, 1.0, 7.0),
    (3.0, 8.0, 1.0, 4.0),
)
RETURNS = np.array([1.0, 2.5, 4.0, 2.0, 1.0, 8.5])


def after(cuts: tuple[int, ...]) -> ReturnStatistics:
    """The statistics of all steps, handed over in so many parts."""
    statistics: Any = init_returns()
    bounds = (0, *cuts, len(STEPS))
    for start, stop in pairwise(bounds):
        statistics = add(statistics, rows(*STEPS[start:stop]))
    return statistics


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (3,), (5,), (1, 2, 3, 4, 5)])
def test_returns_by_hand_however_rows_are_cut(cuts: tuple[int, ...]) -> None:
    statistics = after(cuts)
    assert statistics.num_steps == 6
    np.testing.assert_allclose(statistics.carried, 8.5)
    np.testing.assert_allclose(statistics.mean, np.mean(RETURNS), rtol=1e-5)
    np.testing.assert_allclose(statistics.variance, np.var(RETURNS), rtol=1e-5)
    np.testing.assert_allclose(statistics.largest, 8.5)


def test_scale_by_hand() -> None:
    statistics = after(())
    # var = 6.64, so the spread is 2.58; the largest return over 5 is 1.7
    np.testing.assert_allclose(reward_scale(statistics, 5.0), np.std(RETURNS), rtol=1e-5)
    np.testing.assert_allclose(reward_scale(statistics, 2.0), 4.25, rtol=1e-6)


def test_negative_returns_count_by_their_size() -> None:
    statistics = add(init_returns(), rows((0.0, -9.0, 1.0, 0.0)))
    np.testing.assert_allclose(reward_scale(statistics, 3.0), 3.0, rtol=1e-5)


def test_without_rewards_the_scale_is_positive() -> None:
    assert reward_scale(init_returns(), 5.0) > 0
