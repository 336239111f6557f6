from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lfiw.report.page import coverage
from lfiw.report.summary import Summary, normalised, summarise
from lfiw.results.catalogue import PAPER_METHODS
from lfiw.results.curves import Curves
from lfiw.results.method import Method
from lfiw.results.published import TABLE_1, published


def method(
    name: str, returns: list[list[float]], task: str = "Probe-v0", every: int = 10
) -> Method:
    agent, _, strategy = name.partition("-")
    steps = every * (1 + np.arange(len(returns[0])))
    curves = Curves(task, agent, name, tuple(range(len(returns))), steps, np.array(returns, float))
    config = {"agent": {"name": agent}, "replay": {"name": strategy.partition("-")[0]}}
    return Method(curves, {}, {"config": config}, Path(name))


UNIFORM = method("sac-uniform", [[0, 4, 4], [0, 2, 6]])  # mean 0, 3, 5
LFIW = method("sac-lfiw", [[0, 9, 5], [0, 3, 3]])  # mean 0, 6, 4

FLOOR = {"name": "lfiw", "min_effective_sample_size": 0.6}


def test_better_outcomes_and_comparisons_by_hand() -> None:
    """Maxima 4, 6 against 9, 3; finals 4, 6 against 5, 3; areas 3, 2.5 against 5.75, 2.25."""
    summary = summarise([UNIFORM, LFIW])
    uniform = summary.outcomes["Probe-v0", "sac-uniform"]
    lfiw = summary.outcomes["Probe-v0", "sac-lfiw"]
    assert (uniform.best, lfiw.best) == ({"final"}, {"maximum", "area"})
    # Of four pairs of final returns, only 5 against 4 is better.
    assert lfiw.improvement is not None
    assert float(lfiw.improvement.value) == 0.25
    # Uniform replay above LFIW: all pairs but that one.
    assert uniform.above_lfiw is not None and lfiw.above_lfiw is None
    assert float(uniform.above_lfiw.value) == 0.75
    assert lfiw.iqm is not None
    assert float(lfiw.iqm.value) == 4
    assert uniform.improvement is None
    assert uniform.efficiency is None


def test_scores_by_hand() -> None:
    """Uniform starts at 0 and ends at 5, so that LFIW's 5 and 3 are 1 and 0.6."""
    np.testing.assert_allclose(normalised(LFIW.curves.final(), UNIFORM.curves), [1, 0.6])
    negative = method("sac-uniform", [[-100, -20]])
    np.testing.assert_allclose(normalised(np.array([-60]), negative.curves), [0.5])
    aggregate = {one.entry.name: one for one in summarise([UNIFORM, LFIW]).aggregates}
    assert float(aggregate["sac-lfiw"].iqm.value) == pytest.approx(0.8)
    assert float(aggregate["sac-uniform"].iqm.value) == pytest.approx(1)
    assert aggregate["sac-uniform"].improvement is None


def ramp(slope: float) -> list[float]:
    return [min(20.0, slope * index) for index in range(20)]


def test_sample_efficiency_is_of_smoothed_curves() -> None:
    """Uniform replay rises by 1 an evaluation to 19; the mean of five around is 17.5 at the last
    but one and 18 at the last. Twice as fast, 18 is reached by 15, 17, 19, 20, 20, ... smoothed:
    14 + 16 + 18 + 20 + 20 over 5 is 17.6 at the tenth evaluation, 18.8 at the eleventh. A single
    evaluation of 99 is 19.8 in such a mean, not enough unless the others are there too."""
    uniform = method("sac-uniform", [ramp(1), ramp(1)])
    fast = method("sac-lfiw", [ramp(2), ramp(2)])
    lucky = method("sac-per", [[0.0] * 5 + [80.0] + [0.0] * 14] * 2)
    outcomes = summarise([uniform, fast, lucky]).outcomes
    seen = outcomes["Probe-v0", "sac-lfiw"].efficiency
    assert seen is not None and seen.as_floats() == pytest.approx((20 / 11,) * 3)
    never = outcomes["Probe-v0", "sac-per"].efficiency
    assert never is not None and never.as_floats() == (0, 0, 0)


def test_sample_efficiency_of_different_grids_is_at_what_both_had() -> None:
    uniform = method("sac-uniform", [ramp(0.5) + [10.0] * 20] * 2, every=10)
    rare = method("sac-lfiw", [uniform.curves.returns[0][1::2].tolist()] * 2, every=20)
    seen = summarise([uniform, rare]).outcomes["Probe-v0", "sac-lfiw"].efficiency
    assert seen is not None and float(seen.value) == 1
    few = [method("sac-uniform", [ramp(1)[:9]]), method("sac-lfiw", [ramp(1)[:9]])]
    assert summarise(few).outcomes["Probe-v0", "sac-lfiw"].efficiency is None


def test_runs_on_different_grids_are_compared_at_what_both_had() -> None:
    """By its last two of twenty evaluations, 8 and 10, LFIW ends at 9; by the last of the ten that
    uniform replay had too at 10, above 9.5, and its area is 10 as well."""
    lfiw = method("sac-lfiw", [[0.0, 10.0] * 9 + [8.0, 10.0]] * 2, every=10)
    uniform = method("sac-uniform", [[0.0] * 9 + [9.5]] * 2, every=20)
    summary = summarise([uniform, lfiw])
    above = summary.outcomes["Probe-v0", "sac-lfiw"].improvement
    assert above is not None and float(above.value) == 1
    (scores,) = [one for one in summary.aggregates if one.entry.name == "sac-lfiw"]
    assert scores.improvement is not None and float(scores.improvement.value) == 1
    assert float(scores.iqm.value) == pytest.approx(10 / 9.5)
    assert float(scores.area.value) == pytest.approx(10 / 9.5)
    published = method("sac-lfiw-published", uniform.curves.returns.tolist(), every=20)
    above = summarise([uniform, lfiw, published]).outcomes["Probe-v0", "sac-lfiw"].above_lfiw
    assert above is not None and float(above.value) == 1


def test_lfiw_with_a_floor_is_not_that_of_the_paper() -> None:
    floored = replace(LFIW, record={"config": LFIW.config | {"replay": FLOOR}})
    assert summarise([UNIFORM, floored]).outcomes["Probe-v0", "sac-uniform"].above_lfiw is None
    labelled = method("sac-lfiw-floor=0.6", [[0, 5, 9], [0, 5, 9]])
    above = summarise([LFIW, labelled]).outcomes["Probe-v0", "sac-lfiw-floor=0.6"].above_lfiw
    assert above is not None and float(above.value) == 1


def test_the_label_tells_lfiw_as_published_from_other_kinds() -> None:
    """Without a floor all three; the published one ends below the others."""
    kinds = [
        method(f"sac-lfiw{label}", [[0, end]])
        for label, end in (("", 5), ("-power", 5), ("-published", 1))
    ]
    above = summarise(kinds).outcomes["Probe-v0", "sac-lfiw-power"].above_lfiw
    assert above is not None and float(above.value) == 1


def test_agents_are_pooled_by_strategy() -> None:
    """Scores of SAC + LFIW are 1 and 0.6, of TD3 + LFIW 2 and 3: without the lowest and the
    highest 1 and 2. SAC's runs win one of four pairs, TD3's all."""
    td3 = [
        method("td3-uniform", [[0, 0, 1], [0, 0, 1]]),
        method("td3-lfiw", [[0, 1, 2], [0, 2, 3]]),
        method("td3-per", [[0, 1, 1], [0, 1, 1]]),
    ]
    pooled = {one.entry.name: one for one in summarise([UNIFORM, LFIW, *td3]).pooled}
    assert list(pooled) == ["uniform", "per", "lfiw"]
    lfiw, per = pooled["lfiw"], pooled["per"]
    assert lfiw.tasks == ("SAC Probe-v0", "TD3 Probe-v0")
    assert float(lfiw.iqm.value) == pytest.approx(1.5)
    # Areas 5.75 / 5, 2.25 / 5, 1 and 1.75: the middle two.
    assert float(lfiw.area.value) == pytest.approx((1.15 + 1) / 2)
    assert lfiw.improvement is not None and lfiw.above_lfiw is None
    assert float(lfiw.improvement.value) == pytest.approx((0.25 + 1) / 2)
    assert per.above_lfiw is not None and float(per.above_lfiw.value) == 0
    assert summarise([UNIFORM, LFIW]).pooled == ()


def test_profile_falls_from_all_to_none() -> None:
    summary = summarise([UNIFORM, LFIW])
    profile = summary.aggregates[1].profile.value
    assert (profile[0], profile[-1]) == (1, 0)
    at_half = profile[(summary.thresholds > 0.6) & (summary.thresholds < 1)]
    assert set(at_half) == {0.5}


def test_methods_on_different_tasks_are_told_apart() -> None:
    assert coverage(summarise([LFIW])).startswith("Nothing is scored here")
    assert coverage(summarise([UNIFORM, LFIW])) == ""
    other = method("sac-uniform", [[0, 10]], "Other-v0")
    warning = coverage(summarise([UNIFORM, LFIW, other]))
    assert "SAC: Probe-v0, Other-v0. SAC + LFIW: Probe-v0." in warning


def test_tasks_are_aggregated_together() -> None:
    other = [
        method("sac-uniform", [[0, 10]], "Other-v0"),
        method("sac-lfiw", [[0, 30]], "Other-v0"),
    ]
    (_, lfiw) = summarise([UNIFORM, LFIW, *other]).aggregates
    assert lfiw.tasks == ("Probe-v0", "Other-v0")
    assert float(lfiw.iqm.value) == pytest.approx((0.6 + 1 + 3) / 3)
    assert lfiw.improvement is not None
    assert float(lfiw.improvement.value) == (0.25 + 1) / 2


def test_interval_does_not_depend_on_the_rest_of_the_report() -> None:
    more = [method("td3-per", [[1, 2], [3, 4]]), method("sac-ere", [[1, 2, 3], [4, 5, 6]])]

    def low(summary: Summary) -> float:
        outcome = summary.outcomes["Probe-v0", "sac-lfiw"]
        return outcome.improvement.as_floats()[1] if outcome.improvement else -1

    assert low(summarise([UNIFORM, LFIW])) == low(summarise([*more, UNIFORM, LFIW]))


def test_without_uniform_replay_nothing_is_compared() -> None:
    summary = summarise([LFIW, method("td3-uniform", [[1, 2]])])
    assert summary.outcomes["Probe-v0", "sac-lfiw"].improvement is None
    assert [one.entry.name for one in summary.aggregates] == ["td3-uniform"]


def test_uniform_replay_of_the_same_label_is_preferred() -> None:
    labelled = method("sac-uniform-wide", [[0, 0, 1]])
    lfiw = method("sac-lfiw-wide", [[0, 0, 2]])
    outcomes = summarise([UNIFORM, labelled, lfiw]).outcomes
    improvement = outcomes["Probe-v0", "sac-lfiw-wide"].improvement
    assert improvement is not None
    assert float(improvement.value) == 1  # above 1, not above 4 and 6


def test_uniform_replay_with_a_label_is_compared_with_that_without() -> None:
    """An ablation of the agent: its final return of 5 is above 4, not above 6. Alone with its
    label, it has nothing to be compared with."""
    ablated = method("sac-uniform-narrow", [[0, 5, 5]])
    summary = summarise([UNIFORM, ablated])
    improvement = summary.outcomes["Probe-v0", "sac-uniform-narrow"].improvement
    assert improvement is not None
    assert float(improvement.value) == 0.5
    alone = summarise([ablated, method("sac-uniform-wide", [[0, 5, 5]])])
    assert all(outcome.improvement is None for outcome in alone.outcomes.values())


def test_shorter_run_is_unfinished_and_never_the_better_one() -> None:
    short = method("sac-lfiw", [[0, 99]])
    outcomes = summarise([UNIFORM, short]).outcomes
    assert not outcomes["Probe-v0", "sac-lfiw"].complete
    assert outcomes["Probe-v0", "sac-lfiw"].best == frozenset()
    assert outcomes["Probe-v0", "sac-lfiw"].improvement is None
    assert outcomes["Probe-v0", "sac-uniform"].complete
    assert [one.entry.name for one in summarise([UNIFORM, short]).aggregates] == ["sac-uniform"]


def test_runs_that_were_all_cut_short_are_unfinished_and_compared_all_the_same() -> None:
    planned = {"env_steps": 40}  # evaluated up to 30
    outcomes = summarise(
        [replace(one, record={"config": one.config | planned}) for one in (UNIFORM, LFIW)]
    ).outcomes
    assert not any(outcome.complete for outcome in outcomes.values())
    assert outcomes["Probe-v0", "sac-uniform"].best == {"final"}


def test_agents_are_compared_apart_and_a_lone_method_is_not_the_better_one() -> None:
    outcomes = summarise([UNIFORM, method("td3-lfiw", [[0, 1, 2]])]).outcomes
    assert outcomes["Probe-v0", "sac-uniform"].best == frozenset()
    assert outcomes["Probe-v0", "td3-lfiw"].best == frozenset()


def test_return_that_is_not_finite_is_never_the_better_one() -> None:
    broken = method("sac-lfiw", [[0, np.nan, 9], [0, 1, 2]])
    outcomes = summarise([UNIFORM, broken]).outcomes
    assert outcomes["Probe-v0", "sac-lfiw"].best == {"final"}
    assert outcomes["Probe-v0", "sac-uniform"].best == {"maximum", "area"}


def test_paper_is_the_frame_where_one_of_its_tasks_was_run() -> None:
    summary = summarise([method("sac-lfiw-warm", [[0, 1]], "Ant-v5")])
    assert summary.tasks == ("Ant-v5",)
    assert summary.frame == ("Hopper", "Walker2d", "HalfCheetah", "Ant-v5", "Humanoid")
    names = [entry.name for entry in summary.entries]
    papers = [own.name for own in PAPER_METHODS]
    assert papers[3] == "sac-lfiw-published"
    assert names == [*papers[:4], "sac-lfiw-warm", *papers[4:]]
    assert summary.outcomes["Ant-v5", "sac-lfiw-published"].method is None
    assert summarise([LFIW]).frame == ("Probe-v0",)


def test_what_is_missing_was_planned_unless_the_paper_has_no_such_cell() -> None:
    outcomes = summarise([UNIFORM, method("sac-lfiw-warm", [[0, 1]], "Ant-v5")]).outcomes
    planned = {(task, name): outcome.planned for (task, name), outcome in outcomes.items()}
    assert planned["Hopper", "sac-lfiw-published"] and planned["Probe-v0", "sac-lfiw-warm"]
    assert not (planned["Hopper", "sac-lfiw-warm"] or planned["Humanoid", "td3-uniform"])


def test_published_numbers() -> None:
    assert len(TABLE_1) == 4 * 7 + 4
    assert published("HalfCheetah-v5", "sac-lfiw-published") == (7037, 629)
    assert published("Walker2d-v4", "td3-lfiw-published") == (5159, 189)
    assert published("Ant-v5 (include_cfrc_ext_in_observation=False)", "sac-ere") == (3346, 116)
    assert published("Humanoid-v5", "sac-per") == (4650, 315)
    assert published("Humanoid-v5", "td3-lfiw-published") is None
    assert published("HalfCheetah-v5", "sac-lfiw") is None
    assert published("Pendulum-v1", "sac-lfiw-published") is None
