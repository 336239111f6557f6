"""`lfiw tune` as users meet it: a study of real trainings, killed and gone on with."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
from processes import PATIENCE, finish, wait_for
from small import as_options, small
from trainings import ENV, command

from lfiw.acting.rollout import RESET_STREAM, stream
from lfiw.cli import main, parse_command
from lfiw.settings import to_json

SETTINGS = as_options(small("uniform", env_steps=400))
SEARCH = ("--search", "agent.gamma", "agent.learning_rate=1e-4:1e-2")
WHERE = ("--workers", "0", "--devices", "cpu:1")
COMMON = ("--replay", "uniform", "--num-seeds", "2", *SETTINGS, *SEARCH, *WHERE)


def run(*arguments: str) -> Any:
    """The exit code."""
    with pytest.raises(SystemExit) as exited:
        main(list(arguments))
    return exited.value.code


def trials_of(out: Path) -> list[tuple[Any, ...]]:
    """Number, state, value and parameters of each trial; nothing is changed."""
    with sqlite3.connect(f"file:{out / 'optuna.db'}?mode=ro", uri=True) as storage:
        return storage.execute(
            "SELECT number, state, value, group_concat(param_name || '=' || param_value) "
            "FROM trials LEFT JOIN trial_values USING (trial_id) "
            "LEFT JOIN (SELECT * FROM trial_params ORDER BY param_name) USING (trial_id) "
            "GROUP BY number ORDER BY number"
        ).fetchall()


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three trials; the second one is ended after its first evaluation."""
    out = tmp_path_factory.mktemp("study") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optuna.Trial, "should_prune", lambda trial: trial.number == 1)
        assert run("tune", ENV, *COMMON, "--trials", "3", "--out", str(out)) == 0
    return out


def evaluated(folder: Path) -> list[tuple[int, int]]:
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [(row["seed"], row["env_steps"]) for row in rows if row["kind"] == "eval"]


def test_trials_are_trained_and_ended(study: Path) -> None:
    assert [state for _, state, _, _ in trials_of(study)] == ["COMPLETE", "PRUNED", "COMPLETE"]
    whole = [(seed, env_steps) for env_steps in (200, 400) for seed in (0, 1)]
    assert evaluated(study / "trials" / "000") == whole
    assert evaluated(study / "trials" / "001") == whole[:2]


def test_value_is_the_mean_of_the_last_evaluations(study: Path) -> None:
    """Two evaluations: the last one is a tenth of them, rounded up."""
    for number in (0, 2):
        log = (study / "trials" / f"{number:03d}" / "metrics.jsonl").read_text().splitlines()
        last = [row["return_mean"] for row in map(json.loads, log) if row["kind"] == "eval"][-2:]
        assert trials_of(study)[number][2] == pytest.approx(sum(last) / 2)


def test_a_trial_keeps_its_config_and_its_log_alone(study: Path) -> None:
    """So that `lfiw resume` and `lfiw plot` take it for no run of the user's."""
    for folder in (study / "trials").iterdir():
        assert {path.name for path in folder.iterdir()} == {"trial.json", "metrics.jsonl"}


def test_best_settings_train(study: Path, tmp_path: Path) -> None:
    best = json.loads((study / "best.json").read_text())
    values = {number: value for number, _, value, _ in trials_of(study) if number != 1}
    assert best["study"]["trial"] == max(values, key=lambda number: values[number])
    options = ("--config", str(study / "best.json"), "--seeds", "7", "--out", str(tmp_path))
    assert run("train", *options, *WHERE, "--quiet") == 0
    recorded = json.loads(
        (tmp_path / "environments-make_point/sac-uniform/config.json").read_text()
    )
    assert recorded["config"] == best["config"] | {"seeds": [7]}
    # Its own trial has trained with the same.
    trial = study / "trials" / f"{best['study']['trial']:03d}" / "trial.json"
    (config,) = parse_command(["train", "--config", str(trial)]).configs()
    assert to_json(config) == best["config"]


def test_the_same_command_shows_what_is_there(study: Path, capsys: Any) -> None:
    before = trials_of(study)
    assert run("tune", ENV, *COMMON, "--trials", "3", "--out", str(study)) == 0
    shown = capsys.readouterr()
    assert "3 trials: 2 complete, 1 ended early, 0 failed." in shown.out
    assert f"lfiw train --config {study}/best.json --seeds 2,3,4,5,6" in shown.out
    assert shown.err == ""
    assert trials_of(study) == before


def test_other_settings_in_the_same_folder_are_refused(study: Path, capsys: Any) -> None:
    options = (*COMMON, "--objective", "area", "--out", str(study))
    assert run("tune", ENV, *options) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "other settings (objective: final, now area)" in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("Pendulum-v9",), "Pendulum-v1"),
        ((ENV, "--agent", "sca"), "Did you mean sac?"),
        ((ENV, "--replay", "pre"), "Did you mean per?"),
        ((ENV, "--trials", "0"), "--trials must be at least 1, not 0."),
        ((ENV, "--num-seeds", "0"), "--num-seeds must be at least 1, not 0."),
        ((ENV, "--env-steps", "many"), "env_steps takes a value of type int, not 'many'."),
        ((ENV, "--objective", "last"), "Unknown objective 'last'. Valid names: area, final."),
        ((ENV, "--seed", "-1"), "--seed must be at least 0"),
        ((ENV, "--set", "agent.tau=2"), "agent.tau must be at most 1, not 2.0."),
        ((ENV, "--set", "stop_at_return=9"), "stop_at_return would cut the curves"),
        ((ENV, "--search", "agent.tau=0.1:2"), "agent.tau must be at most 1, not 2.0."),
        ((ENV, "--search", "agent.tau", "agent.gama"), "Did you mean agent.gamma?"),
        ((ENV, "--workers", "-1"), "workers must be at least 0, not -1."),
        ((ENV, "--devices", "tpu"), "jax sees no 'tpu' here"),
    ],
)
def test_bad_input_is_one_sentence(
    options: tuple[str, ...], words: str, tmp_path: Path, capsys: Any
) -> None:
    out = tmp_path / "out"
    assert run("tune", *options, "--out", str(out)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("lfiw: ") and words in line
    assert not out.exists()


def test_missing_optuna_gives_the_install_command(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.modules['optuna'] = None; from lfiw.cli import main; "
        f"main(['tune', 'Pendulum-v1', '--out', {str(tmp_path / 'out')!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("lfiw: lfiw tune needs Optuna: ")
    assert line.endswith('pip install "optuna>=4"')
    assert not (tmp_path / "out").exists()


def test_a_run_that_is_no_longer_finite_fails_its_trial(tmp_path: Path, capsys: Any) -> None:
    """The second seed is paid more than float32 can square in its first episode."""
    poison = int(stream(1, RESET_STREAM).integers(2**31))
    options = (*COMMON, "--set", f"env.kwargs.poison={poison}", "--out", str(tmp_path / "out"))
    assert run("tune", "environments:make_poisoned", *options, "--trials", "1") == 1
    *trials, last = capsys.readouterr().err.splitlines()
    assert len(trials) == 5
    assert all(
        "failed, the numbers of seed 1 were no longer finite; agent.ga" in line for line in trials
    )
    assert last.startswith("lfiw: 5 trials in a row have failed, the last one: the numbers of")
    assert {state for _, state, _, _ in trials_of(tmp_path / "out")} == {"FAIL"}


def test_killed_study_goes_on(tmp_path: Path) -> None:
    """Killed in the middle of a trial, in which the environment waits; then with the gate open."""
    out, gate = tmp_path / "out", tmp_path / "gate"
    common = ("tune", "environments:make_gated", *COMMON, "--set", f"env.kwargs.gate={gate}")
    first = command(*common, "--trials", "1000000", "--out", str(out))
    wait_for((out / "trials" / "000" / "trial.json").exists, first)
    gate.touch()
    wait_for(gate.with_suffix(".reached").exists, first)
    first.kill()
    first.communicate(timeout=PATIENCE)
    *finished, killed = trials_of(out)
    assert finished and {state for _, state, _, _ in finished} == {"COMPLETE"}
    assert killed[1] == "RUNNING"
    assert (out / "trials" / f"{killed[0]:03d}" / "config.json").exists()

    gate.unlink()
    wanted = len(finished) + 2
    shown = finish(command(*common, "--trials", str(wanted), "--out", str(out)))
    assert f"{wanted + 1} trials: {wanted} complete, 0 ended early, 1 failed." in shown
    after = trials_of(out)
    assert after[: len(finished)] == finished
    failed, again, other = after[len(finished) :]
    assert (failed[1], again[1], other[1]) == ("FAIL", "COMPLETE", "COMPLETE")
    assert failed[3] == killed[3] == again[3] != other[3]
    assert not (out / "trials" / f"{killed[0]:03d}").exists()
    best = json.loads((out / "best.json").read_text())
    assert best["study"]["value"] == max(value for _, _, value, _ in after if value is not None)
