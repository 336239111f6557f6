from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lfiw.results.statistics import (
    Interval,
    bootstrap,
    efficiency_ratio,
    first_reached,
    interquartile_mean,
    mean_of_drawn,
    performance_profile,
    probability_of_improvement,
)


def arrays(*tasks: list[float]) -> list[np.ndarray]:
    return [np.array(task, float) for task in tasks]


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("scores", "mean"),
    [
        ([7.0], 7),
        ([1.0, 2, 6], 3),  # a quarter of three is none
        ([100.0, 1, 2, -100], 1.5),  # the middle two of four
        ([-9.0, 1, 2, 3, 90], 2),  # one of five is cut from either end
        ([0.0, 1, 2, 3, 4, 5, 6, 70], 3.5),  # two of eight
    ],
)
def test_interquartile_mean_by_hand(scores: list[float], mean: float) -> None:
    assert interquartile_mean(arrays(scores)) == mean


def test_an_interval_is_formatted_as_its_numbers_are() -> None:
    interval = Interval(np.array(-1234.5), np.array(-1300.0), np.array(-1100.25))
    assert f"{interval:,.1f}" == "-1,234.5 (-1,300.0 to -1,100.2)"
    unknown = Interval(np.array(0.5), np.array(np.nan), np.array(np.nan))  # of a single run
    assert f"{unknown:.2f}" == "0.50"


def test_interquartile_mean_pools_the_tasks() -> None:
    """0, 1, 2, 3, 10, 10, 10, 90: the middle four are 2, 3, 10, 10."""
    assert interquartile_mean(arrays([10, 0, 90, 10], [1, 2, 3, 10])) == 6.25


def test_probability_of_improvement_by_hand() -> None:
    """Of the 6 pairs, 3 is above 1 and 2 and equal to 3, 0 is above none: (2 + 1/2) / 6."""
    ours, theirs = arrays([3, 0]), arrays([1, 2, 3])
    assert probability_of_improvement(ours, theirs) == pytest.approx(2.5 / 6)
    assert probability_of_improvement(theirs, ours) == pytest.approx(3.5 / 6)
    assert probability_of_improvement(ours, ours) == 0.5


def test_probability_of_improvement_is_averaged_over_tasks_not_over_pairs() -> None:
    ours, theirs = arrays([5, 6, 7], [0]), arrays([1, 2], [1])
    assert probability_of_improvement(ours, theirs) == 0.5


def test_score_that_is_not_a_number_is_no_win() -> None:
    assert np.isnan(probability_of_improvement(arrays([np.nan, 9]), arrays([1, 2])))


def test_performance_profile_by_hand() -> None:
    """Task one: 3, 2, 1, 0 of three runs; task two: 1, 1, 0, 0 of one."""
    profile = performance_profile(arrays([0, 1, 2], [0.5]), np.array([-1, 0, 1, 2.0]))
    np.testing.assert_allclose(profile, [1, (2 / 3 + 1) / 2, (1 / 3) / 2, 0])


def test_first_reached_by_hand() -> None:
    steps = np.array([10, 20, 30])
    curves = np.array([[1.0, 5, 3], [1, 2, 5], [1, 2, 3], [9, 0, 0]])
    reached = first_reached(steps, curves, np.full(4, 5.0))
    assert reached.tolist() == [20, 30, np.inf, 10]


def test_efficiency_ratio_by_hand() -> None:
    """The base reaches its 6 after 30 steps, the other after 20."""
    steps, goal = np.array([10, 20, 30]), np.array(6.0)
    base, other = np.array([1.0, 3, 6]), np.array([2.0, 6, 5])
    assert efficiency_ratio(other, base, goal, steps) == 1.5
    assert efficiency_ratio(base, base, goal, steps) == 1
    assert efficiency_ratio(other - 9, base, goal, steps) == 0


def test_a_level_above_the_smoothed_base_is_its_highest_point() -> None:
    """The goal 7 is beyond the base: 6 is the level, after 30 steps and after 20."""
    steps = np.array([10, 20, 30])
    base, other = np.array([1.0, 3, 6]), np.array([2.0, 6.5, 5])
    assert efficiency_ratio(other, base, np.array(7.0), steps) == 1.5
    assert efficiency_ratio(base, base, np.array(7.0), steps) == 1


def test_mean_of_drawn_by_hand() -> None:
    values = np.array([[1.0, 10], [2, 20], [6, 60]])
    drawn = np.array([[0, 1, 2], [2, 2, 0]])
    np.testing.assert_allclose(mean_of_drawn(values, drawn), [[3, 30], [13 / 3, 130 / 3]])


def test_resampling_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = arrays([1, 5, 2, 8], [0, 3, 9])
    whole = bootstrap(interquartile_mean, scores, rng=generator(), resamples=500)
    monkeypatch.setattr("lfiw.results.statistics.BLOCK", 7)
    assert bootstrap(interquartile_mean, scores, rng=generator(), resamples=500) == whole


@pytest.mark.parametrize("tasks", [[[1.0]], [[1.0, 2.0, 3.0], [5.0]]])
def test_single_run_has_no_interval(tasks: list[list[float]]) -> None:
    """However often it is drawn, it is the same: a width of zero would be a lie."""
    scores = [np.array(task) for task in tasks]
    found = bootstrap(interquartile_mean, scores, rng=np.random.default_rng(0))
    assert found.value == interquartile_mean(scores)
    assert not found.is_bounded()
    pair = [np.array([1.0, 2.0])]
    assert bootstrap(interquartile_mean, pair, rng=np.random.default_rng(0)).is_bounded()


def test_interval_of_two_runs_has_a_closed_form() -> None:
    """The mean of two draws of {0, 1} is 0, 1/2 or 1 with 1/4, 1/2, 1/4."""
    mean = bootstrap(lambda scores: scores[0].mean(axis=-1), arrays([0, 1]), rng=generator())
    assert mean.as_floats() == (0.5, 0, 1)
    half = bootstrap(
        lambda scores: scores[0].mean(axis=-1), arrays([0, 1]), rng=generator(), level=0.4
    )
    assert half.as_floats() == (0.5, 0.5, 0.5)


def test_interval_of_a_mean_is_that_of_the_normal_distribution() -> None:
    """400 runs of standard deviation s: mean ± 1.96 s / 20."""
    scores = generator().normal(size=400)
    seen = bootstrap(lambda drawn: drawn[0].mean(axis=-1), [scores], rng=generator())
    width = 2 * 1.96 * scores.std() / 20
    assert float(seen.high - seen.low) == pytest.approx(width, rel=0.06)


def test_runs_are_resampled_within_their_task() -> None:
    """Tasks of one level each: no resample can differ."""
    seen = bootstrap(interquartile_mean, arrays([1, 1, 1, 1], [9, 9, 9, 9]), rng=generator())
    assert seen.as_floats() == (5, 5, 5)


def test_samples_are_resampled_independently() -> None:
    """A sample against itself: resampled together it would always be exactly 1/2."""
    scores = arrays([1, 2, 3, 4, 5])
    seen = bootstrap(probability_of_improvement, scores, scores, rng=generator())
    assert float(seen.low) < 0.4
    assert float(seen.high) > 0.6


def test_same_generator_same_interval() -> None:
    scores = [generator().normal(size=20)]
    first, second, other = (
        bootstrap(interquartile_mean, scores, rng=np.random.default_rng(seed), resamples=50)
        for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


SCORES: dict[str, Callable[[], np.ndarray]] = {  # [runs, tasks], as rliable has them
    "normal": lambda: np.random.default_rng(3).normal(size=(5, 4)),
    "skewed": lambda: np.random.default_rng(4).exponential(size=(10, 3)),
    "ties": lambda: np.random.default_rng(5).integers(4, size=(6, 5)).astype(float),
}


@pytest.fixture
def rliable() -> Any:
    """rliable draws from numpy's global generator, whatever it is given."""
    pytest.importorskip("rliable", reason="rliable is not installed; `make install` brings it.")
    from rliable import library, metrics

    np.random.seed(0)
    return library, metrics


@pytest.mark.parametrize("name", SCORES)
def test_estimates_are_those_of_rliable(rliable: Any, name: str) -> None:
    library, metrics = rliable
    scores = SCORES[name]()
    others = np.roll(scores, 1, axis=1)[:-1]
    assert interquartile_mean(list(scores.T)) == pytest.approx(metrics.aggregate_iqm(scores))
    assert probability_of_improvement(list(scores.T), list(others.T)) == pytest.approx(
        metrics.probability_of_improvement(scores, others)
    )
    thresholds = np.linspace(-2, 4, 31)
    expected, _ = library.create_performance_profile({"a": scores}, thresholds, reps=2)
    np.testing.assert_allclose(performance_profile(list(scores.T), thresholds), expected["a"])


@pytest.mark.parametrize("name", SCORES)
def test_intervals_are_those_of_rliable(rliable: Any, name: str) -> None:
    """Both are random: their ends differ by a small part of the width."""
    library, metrics = rliable
    scores = SCORES[name]()
    others = scores + np.random.default_rng(6).normal(size=scores.shape)
    pairs = {"a,b": (scores, others)}
    _, iqm = library.get_interval_estimates(
        {"a": scores}, lambda drawn: np.array([metrics.aggregate_iqm(drawn)]), reps=4000
    )
    _, improvement = library.get_interval_estimates(
        pairs,
        lambda ours, theirs: np.array([metrics.probability_of_improvement(ours, theirs)]),
        reps=1000,
    )
    ours, theirs = list(scores.T), list(others.T)
    seen = bootstrap(interquartile_mean, ours, rng=generator(), resamples=20000)
    compare(seen, iqm["a"][:, 0], part=0.06)
    seen = bootstrap(probability_of_improvement, ours, theirs, rng=generator())
    compare(seen, improvement["a,b"][:, 0], part=0.12)


def test_band_of_the_profile_is_that_of_rliable(rliable: Any) -> None:
    library, _ = rliable
    scores, thresholds = SCORES["skewed"](), np.linspace(0, 3, 7)
    _, expected = library.create_performance_profile({"a": scores}, thresholds, reps=2000)
    seen = bootstrap(
        lambda drawn: performance_profile(drawn, thresholds), list(scores.T), rng=generator()
    )
    np.testing.assert_allclose([seen.low, seen.high], expected["a"], atol=0.035)


def compare(seen: Any, expected: np.ndarray, part: float) -> None:
    width = expected[1] - expected[0]
    np.testing.assert_allclose([seen.low, seen.high], expected, atol=part * width)
