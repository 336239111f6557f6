"""The loop of a study and what it reports, with trials that train nothing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState
from rich.console import Console

from lfiw.errors import InputError, RunError
from lfiw.learning.config import make_config
from lfiw.runs.lock import locked
from lfiw.training.callback import Evaluation
from lfiw.tuning import study as study_module
from lfiw.tuning.outcome import Plan, best_table, counts, train_command, value_text
from lfiw.tuning.space import make_space
from lfiw.tuning.study import MAX_FAILURES, Place, num_finished, tune
from lfiw.tuning.trial import SEED_VALUES, Reporter

ENV = "environments:make_point"


def make_plan(**changes: Any) -> Plan:
    settings = {"env_steps": 1000, "seeds": (0, 1), "buffer_size": 5000} | changes
    config = make_config(ENV, "sac", "uniform", **settings)
    return Plan(config, make_space(config, ("agent.gamma", "agent.tau")))


def make_place(out: Path) -> Place:
    return Place(out, workers=0, devices=None, console=Console(quiet=True))


def states(study: optuna.Study) -> list[str]:
    return [trial.state.name for trial in study.get_trials()]


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What becomes of the trials, in turn: the values of two seeds, or what is raised."""
    planned: list[Any] = []

    def run_trial(trial: optuna.Trial, *arguments: Any, **options: Any) -> float:
        trial.report(1.0, 500)
        outcome = planned.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        trial.set_user_attr(SEED_VALUES, outcome)
        return float(np.mean(outcome))

    monkeypatch.setattr(study_module, "run_trial", run_trial)
    return planned


def test_trials_until_enough_are_finished(outcomes: list[Any], tmp_path: Path) -> None:
    out, plan = tmp_path / "study", make_plan()
    outcomes += [[1.0, 3.0], optuna.TrialPruned(), RunError("sick"), [5.0, 6.0], [4.0, 4.0]]
    study = tune(plan, 4, make_place(out))
    assert outcomes == []
    assert states(study) == ["COMPLETE", "PRUNED", "FAIL", "COMPLETE", "COMPLETE"]
    # One that was ended has its last report for a value, and is not among the best.
    assert [trial.value for trial in study.get_trials()] == [2.0, 1.0, None, 5.5, 4.0]
    # The first one has the defaults.
    first = study.get_trials()[0].params
    assert first == {"1 - agent.gamma": pytest.approx(0.01), "agent.tau": 0.005}
    best = json.loads((out / "best.json").read_text())
    assert best["study"] == {"trial": 3, "objective": "final", "value": 5.5}
    assert best["config"]["agent"]["tau"] == study.get_trials()[3].params["agent.tau"]
    table = best_table(study, plan)
    assert [row[:2] for row in table.rows] == [
        ("3", "5.5 ± 0.7071"),
        ("4", "4 ± 0"),
        ("0", "2 ± 1.414"),
    ]
    assert table.header == ("trial", "final", "gamma", "tau")
    assert counts(study) == "5 trials: 3 complete, 1 ended early, 1 failed."
    assert train_command(plan, out).endswith("best.json --seeds 2,3,4,5,6")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("values", "text"),
    [([5.5], "5.5"), ([250.0], "250"), ([1.0, 3.0], "2 ± 1.414"), ([100.0, 300.0], "200 ± 141")],
)
def test_one_seed_has_no_deviation(values: list[float], text: str) -> None:
    """Of two seeds it is the distance between them divided by the root of two."""
    trial = optuna.create_trial(value=float(np.mean(values)), user_attrs={SEED_VALUES: values})
    assert value_text(trial) == text


def test_a_study_goes_on(outcomes: list[Any], tmp_path: Path) -> None:
    outcomes += [[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]]
    for trials in (2, 2, 1, 3):  # enough are finished: nothing is trained
        study = tune(make_plan(), trials, make_place(tmp_path / "study"))
    assert [trial.value for trial in study.get_trials()] == [1.0, 2.0, 0.0]


def test_a_trial_that_was_cut_short_is_repeated_a_few_times(
    outcomes: list[Any], tmp_path: Path
) -> None:
    place, plan = make_place(tmp_path / "study"), make_plan()
    outcomes += [[1.0, 1.0], *(KeyboardInterrupt("`lfiw resume` goes on") for _ in range(4))]
    for number in (1, 2, 3, 4):
        with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
            tune(plan, 2, place)
        (place.out / "trials" / f"{number:03d}").mkdir(parents=True)
    outcomes += [[2.0, 2.0]]
    study = tune(plan, 2, place)
    assert list((place.out / "trials").iterdir()) == []
    assert states(study) == ["COMPLETE", *["FAIL"] * 4, "COMPLETE"]
    _, cut, *again, other = (trial.params for trial in study.get_trials())
    assert again == [cut, cut, cut]
    assert other != cut


def test_failures_in_a_row_end_a_study(outcomes: list[Any], tmp_path: Path) -> None:
    place = make_place(tmp_path / "study")
    failures = [RunError("no power") for _ in range(MAX_FAILURES)]
    outcomes += [*failures[1:], [1.0, 1.0], *failures]
    with pytest.raises(RunError, match="5 trials in a row have failed, the last one: no power"):
        tune(make_plan(), 3, place)
    assert outcomes == []
    outcomes += [[2.0, 2.0], [3.0, 3.0]]  # it was mended
    assert num_finished(tune(make_plan(), 3, place)) == 3


def test_settings_that_do_not_go_together_fail_a_trial(tmp_path: Path) -> None:
    """A batch is drawn from what was collected before: 6000 of 7000, or 256 of 300, but not 6000 of
    300."""
    config = make_config(ENV, "sac", "uniform", learning_starts=7000, env_steps=9000)
    space = make_space(config, ("batch_size=6000,6500", "learning_starts=300,400"))
    with pytest.raises(RunError, match="5 trials in a row have failed, the last one: batch_size 6"):
        tune(Plan(config, space), 1, make_place(tmp_path / "study"))


def test_another_study_in_the_same_folder_is_refused(outcomes: list[Any], tmp_path: Path) -> None:
    place = make_place(tmp_path / "study")
    outcomes += [[1.0, 1.0]]
    tune(make_plan(), 1, place)
    before = {path: path.read_bytes() for path in place.out.iterdir()}
    with pytest.raises(InputError) as raised:
        tune(make_plan(env_steps=2000, **{"agent.learning_rate": 0.001}), 1, place)
    changes = "agent.learning_rate: 0.0003, now 0.001; env_steps: 1000, now 2000"
    assert f"holds a study with other settings ({changes})" in str(raised.value)
    config = make_plan().config
    with pytest.raises(InputError, match=r"search\.agent\.gamma: 0\.9 to 0\.999, log to 1, now"):
        tune(Plan(config, make_space(config, ("agent.gamma=0.5:0.6",))), 1, place)
    assert {path: path.read_bytes() for path in place.out.iterdir()} == before


@pytest.mark.parametrize("content", ["{", "[]", ""])
def test_damaged_study_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(content)
    with pytest.raises(InputError, match=r"study\.json is damaged.* Choose another --out"):
        tune(make_plan(), 1, make_place(tmp_path))


def test_damaged_storage_is_one_sentence(tmp_path: Path, outcomes: list[Any]) -> None:
    outcomes += [[1.0, 1.0]]
    tune(make_plan(), 1, make_place(tmp_path / "study"))
    (tmp_path / "study" / "optuna.db").write_text("no database at all" * 99)
    with pytest.raises(RunError, match=r"optuna\.db cannot be read or written: .*not a database"):
        tune(make_plan(), 1, make_place(tmp_path / "study"))


def test_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match="already holds something else"):
        tune(make_plan(), 1, make_place(tmp_path))
    with pytest.raises(InputError, match="is no folder"):
        tune(make_plan(), 1, make_place(tmp_path / "notes.txt"))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(InputError, match="is being written by another process"):
        tune(make_plan(), 1, make_place(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def evaluation(seed: int, env_steps: int, value: float, folder: Path) -> Evaluation:
    numbers = {"return_mean": value, "return_std": 0.0, "length_mean": 1.0}
    names: dict[str, Any] = {"folder": folder, "method": "000", "env": ENV}
    return Evaluation(
        **names, **numbers, seed=seed, env_steps=env_steps, updates=0, returns=(), is_best=False
    )


def test_means_over_seeds_are_reported_and_compared_with_the_median(tmp_path: Path) -> None:
    """Others have 3, 5 and 9 at 500 steps: their median is 5, above (2 + 6) / 2 = 4."""
    study = optuna.create_study(
        direction="maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=250),
    )
    for value in (3.0, 5.0, 9.0):
        other = study.ask()
        other.report(value, 250)
        other.report(value, 500)
        study.tell(other, value)
    trial, shown = study.ask(), list[str]()
    report = Reporter(trial, make_plan().config, shown.append)
    report(evaluation(0, 200, -8.0, tmp_path))
    report(evaluation(1, 200, -9.0, tmp_path))  # the worst, but too early to end it
    report(evaluation(1, 500, 6.0, tmp_path))
    with pytest.raises(optuna.TrialPruned):
        report(evaluation(0, 500, 2.0, tmp_path))
    study.tell(trial, state=TrialState.PRUNED)
    assert study.get_trials()[-1].intermediate_values == {200: -8.5, 500: 4.0}
    assert shown == ["200 of 1,000 steps, return -8.5", "500 of 1,000 steps, return 4"]


def test_a_trial_is_not_ended_after_its_last_step(tmp_path: Path) -> None:
    study = optuna.create_study(pruner=optuna.pruners.ThresholdPruner(upper=0))
    report = Reporter(study.ask(), make_plan(seeds=(0,)).config, print)
    report(evaluation(0, 1000, 1.0, tmp_path))
    with pytest.raises(optuna.TrialPruned):
        report(evaluation(0, 900, 1.0, tmp_path))


def test_a_trial_that_has_lost_a_seed_fails_at_once(tmp_path: Path) -> None:
    report = Reporter(optuna.create_study().ask(), make_plan().config, print)
    report(evaluation(0, 200, 1.0, tmp_path))
    stopped = {"kind": "stopped", "seed": 1, "env_steps": 300, "reason": "its loss is not finite"}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(stopped) + "\n")
    with pytest.raises(RunError, match="the numbers of seed 1 were no longer finite"):
        report(evaluation(0, 400, 1.0, tmp_path))
