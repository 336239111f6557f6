"""`on_evaluation`, `stop_at_return` and the best policy of each seed."""

import dataclasses
import io
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from small import compiled_programs_kept_in, small
from trainings import contents, rows

import lfiw
from lfiw.acting.episodes import Episode, Evaluated
from lfiw.cli import main
from lfiw.errors import InputError, RunError
from lfiw.learning.config import make_config
from lfiw.results.curves import read_curves
from lfiw.runs.checkpoint import list_checkpoints, read_manifest
from lfiw.runs.policies import load_policy
from lfiw.runs.recovery import is_finished
from lfiw.runs.verify import verify_run
from lfiw.training.jobs import Job
from lfiw.training.start import run_jobs

ENV = "environments:make_point"
SEEDS = (3, 0)
STEPS = (200, 400, 600)  # of evaluations


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with compiled_programs_kept_in(tmp_path_factory.mktemp("programs")):
        yield


def train(out: Path, told: Any = None, workers: int = 0, **changes: Any) -> Path:
    options: dict[str, Any] = {"out": out, "workers": workers, "quiet": True}
    settings = small("uniform", seeds=SEEDS) | changes
    return lfiw.train(ENV, "sac", "uniform", on_evaluation=told, **options, **settings).folder


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("control"))


def log_of(folder: Path, seed: int) -> list[dict[str, Any]]:
    return [row for row in rows(folder) if row["seed"] == seed]


def files_of(folder: Path, seed: int) -> dict[str, bytes]:
    """Policies, snapshots, ring and the state in the newest checkpoint."""
    return {name: own for name, own in contents(folder).items() if f"seed-{seed}" in name}


def test_each_evaluation_is_told_in_order(control: Path, tmp_path: Path) -> None:
    """Of the seeds as they were given, in the thread that trains; nothing changes by it."""
    told: list[lfiw.Evaluation] = []
    threads = set()

    def note(evaluation: lfiw.Evaluation) -> None:
        told.append(evaluation)
        threads.add(threading.current_thread())

    folder = train(tmp_path, note, workers=1)
    assert [(one.env_steps, one.seed) for one in told] == [(at, s) for at in STEPS for s in SEEDS]
    assert threads == {threading.current_thread()}
    logged = {(row["env_steps"], row["seed"]): row for row in rows(folder) if row["kind"] == "eval"}
    for one in told:
        row = logged[one.env_steps, one.seed]
        assert (one.return_mean, one.return_std) == (row["return_mean"], row["return_std"])
        assert np.mean(one.returns) == pytest.approx(one.return_mean, rel=1e-6)
        assert len(one.returns) == row["episodes"] == 2
        assert (one.folder, one.method, one.env) == (folder, "sac-uniform", ENV)
        earlier = [other.return_mean for other in told if other.seed == one.seed]
        assert one.is_best == (
            one.return_mean > max(earlier[: earlier.index(one.return_mean)] or [-np.inf])
        )
    assert [one.updates for one in told[::2]] == [100, 300, 500]
    assert rows(folder) == rows(control)
    assert contents(folder) == contents(control)


def end_first_seed(evaluation: lfiw.Evaluation) -> bool:
    return evaluation.seed != SEEDS[0] or evaluation.env_steps < 400


def test_a_run_that_is_ended_is_complete_and_stays_ended(control: Path, tmp_path: Path) -> None:
    ended_seed, other = SEEDS
    folder = train(tmp_path, end_first_seed)
    *before, last = log_of(folder, ended_seed)
    assert before == [row for row in log_of(control, ended_seed) if row["env_steps"] <= 400]
    assert (last["kind"], last["env_steps"]) == ("ended", 400)
    assert last["reason"] == "on_evaluation returned False"
    assert log_of(folder, other) == log_of(control, other)
    assert files_of(folder, other) == files_of(control, other)
    whole = train(tmp_path / "short", env_steps=400, buffer_size=200)
    for name in (f"policies/seed-{ended_seed}.safetensors", f"seed-{ended_seed}.safetensors"):
        assert contents(folder)[name] == contents(whole)[name]
    assert verify_run(folder)[0] == []
    assert is_finished(folder, 600)
    assert read_curves(folder).seeds == tuple(sorted(SEEDS))
    assert [row["seed"] for row in lfiw.evaluate(folder, episodes=1)] == list(SEEDS)
    longer = lfiw.resume(folder, env_steps=700, workers=0, quiet=True)
    assert log_of(folder, ended_seed)[-1] == last
    assert log_of(longer.folder, other)[-1]["env_steps"] == 700
    assert verify_run(folder)[0] == []


def test_when_all_are_ended_nothing_is_left_to_train(tmp_path: Path) -> None:
    folder = train(tmp_path, lambda evaluation: evaluation.env_steps < 400)
    assert max(row["env_steps"] for row in rows(folder)) == 400
    assert is_finished(folder, 600) and verify_run(folder)[0] == []
    before = rows(folder), contents(folder), list_checkpoints(folder)
    for env_steps in (None, 900):
        lfiw.resume(folder, env_steps=env_steps, workers=0, quiet=True)
        assert (rows(folder), contents(folder), list_checkpoints(folder)) == before


def test_what_the_function_raises_reaches_the_caller_when_all_is_saved(
    control: Path, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []

    def fail(evaluation: lfiw.Evaluation) -> None:
        told.append((evaluation.env_steps, evaluation.seed))
        if evaluation.env_steps == 400:
            raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError, match="of the user"):
        train(tmp_path, fail)
    assert told == [(200, 3), (200, 0), (400, 3)]
    folder = tmp_path / "environments-make_point" / "sac-uniform"
    assert verify_run(folder)[0] == []
    assert read_manifest(list_checkpoints(folder)[0])["facts"]["env_steps"] >= 400
    told.clear()
    lfiw.resume(folder, workers=0, quiet=True, on_evaluation=lambda one: told.append(one.env_steps))
    assert told == [600, 600]  # what was saved is not told again
    assert (rows(folder), contents(folder)) == (rows(control), contents(control))


def test_two_methods_are_told_of_side_by_side(tmp_path: Path) -> None:
    configs = [
        make_config(ENV, agent, "uniform", **small("uniform", env_steps=400))
        for agent in ("sac", "td3")
    ]
    told: list[tuple[str, int]] = []
    lfiw.train_all(
        configs,
        out=tmp_path,
        workers=0,
        quiet=True,
        on_evaluation=lambda one: told.append((one.method, one.env_steps)),
    )
    for method in ("sac-uniform", "td3-uniform"):
        assert [steps for name, steps in told if name == method] == [200, 400]


def test_a_lost_terminal_leaves_nobody_waiting(tmp_path: Path) -> None:
    class Lost(io.StringIO):
        def write(self, text: str) -> int:
            if "return" in text:
                raise OSError("gone")
            return super().write(text)

    config = make_config(ENV, "sac", "uniform", **small("uniform"))
    job = Job(dataclasses.replace(config, env_steps=10**6), tmp_path / "run")
    with pytest.raises(OSError, match="gone"):
        run_jobs([job], 0, None, Console(file=Lost()), lambda evaluation: True)
    assert verify_run(job.folder)[0] == []


def test_what_is_no_function_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="on_evaluation must be a function, not 3"):
        train(tmp_path, 3)
    assert not any(tmp_path.iterdir())


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Evaluations with these returns, each known only when the next begins; the arrays that were
    evaluated."""

    def script(returns: list[float], late: bool = True) -> list[Any]:
        seen: list[Any] = []
        waiting: list[tuple[Future[Evaluated], float]] = []

        def submit(self: Any, arrays: Any, seeds: Any) -> Future[Evaluated]:
            for future, value in waiting:
                future.set_result(Evaluated([Episode(value, 1)], []))
            waiting.clear()
            seen.append({name: np.array(array) for name, array in arrays.items()})
            future = Future[Evaluated]()
            value = returns[len(seen) - 1]
            if late and len(seen) < len(returns):
                waiting.append((future, value))
            else:
                future.set_result(Evaluated([Episode(value, 1)], []))
            return future

        monkeypatch.setattr("lfiw.acting.evaluator.Evaluator.submit", submit)
        return seen

    return script


def assert_is(policy: Any, arrays: Any) -> None:
    assert arrays.keys() <= policy.arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(policy.arrays[name], array)


# Evaluations after 100, 200, 300 and 400 steps.
FOUR = {"seeds": (0,), "env_steps": 400, "eval_every_env_steps": 100, "random_env_steps": 50}
FOUR |= {"learning_starts": 50}


def test_the_best_policy_is_the_one_that_was_evaluated_best(tmp_path: Path, scripted: Any) -> None:
    """The first of equals, though its result comes in when training has gone on."""
    seen = scripted([1.0, 3.0, 3.0, 2.0])
    folder = train(tmp_path, **FOUR)
    assert len(seen) == 4
    assert_is(load_policy(folder, which="best"), seen[1])
    assert_is(load_policy(folder), seen[3])
    assert {path.name for path in folder.glob("policies/*")} == {
        "seed-0.safetensors",
        "best-seed-0.safetensors",
    }
    assert verify_run(folder)[0] == []
    (folder / "policies" / "best-seed-0.safetensors").write_bytes(b"damaged")
    assert any("best-seed-0" in problem for problem in verify_run(folder)[0])


def test_a_resumed_run_knows_its_best(
    tmp_path: Path, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted after 300 steps, of which 200 were saved: the file of the third evaluation is of
    what never was."""
    kept = {"checkpoint.every_env_steps": 200}
    seen = scripted([1.0, 3.0, 9.0, 2.0], late=False)
    with monkeypatch.context() as patch, pytest.raises(RunError, match="pulled the plug"):
        finish = lfiw.training.member.Member.finish_phase

        def fail(self: Any, position: Any, *arguments: Any) -> bool:
            ended = finish(self, position, *arguments)
            if position.env_steps == 350:
                self.log.flush(wait=False)
                raise RunError("pulled the plug")
            return ended

        patch.setattr("lfiw.training.member.Member.finish_phase", fail)
        train(tmp_path, **FOUR | kept)
    folder = tmp_path / "environments-make_point" / "sac-uniform"
    assert read_manifest(list_checkpoints(folder)[0])["facts"]["env_steps"] == 200
    best = seen[1]
    scripted([2.0, 1.0], late=False)
    lfiw.resume(folder, workers=0, quiet=True)
    assert_is(load_policy(folder, which="best"), best)


def test_stop_at_return(tmp_path: Path, scripted: Any) -> None:
    """At the first evaluation that reaches it, not at one before that is only close."""
    scripted([1.0, 2.9, 3.0], late=False)
    folder = train(tmp_path, stop_at_return=3, **FOUR)
    *_, evaluated, ended = rows(folder)
    assert (evaluated["kind"], evaluated["return_mean"]) == ("eval", 3.0)
    assert ended["kind"] == "ended" and ended["env_steps"] == 300
    assert ended["reason"] == "its return 3 has reached stop_at_return 3"
    assert is_finished(folder, 400)


def test_an_ended_run_is_resumed_to_the_same_bits(
    control: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plug is pulled when one seed has ended and the other goes on."""
    evaluated = [row for row in rows(control) if row["kind"] == "eval" and row["env_steps"] < 600]
    goal = max(row["return_mean"] for row in evaluated)  # which one seed reaches
    whole = train(tmp_path / "whole", stop_at_return=goal)
    with monkeypatch.context() as patch, pytest.raises(RunError, match="pulled the plug"):
        begin = lfiw.training.member.Member.begin_phase

        def fail(self: Any, collected: Any, count: int) -> Any:
            if len(collected) == 1 and self.segments[min(collected)].num_rows == 500:
                raise RunError("pulled the plug")
            return begin(self, collected, count)

        patch.setattr("lfiw.training.member.Member.begin_phase", fail)
        train(tmp_path / "pulled", stop_at_return=goal)
    folder = tmp_path / "pulled" / "environments-make_point" / "sac-uniform"
    lfiw.resume(folder, workers=0, quiet=True)
    assert any(row["kind"] == "ended" for row in rows(folder))
    assert (rows(folder), contents(folder)) == (rows(whole), contents(whole))


def test_a_resume_can_set_the_return(control: Path, tmp_path: Path) -> None:
    folder = train(tmp_path)
    longer = lfiw.resume(folder, env_steps=700, stop_at_return=-1e9, workers=0, quiet=True)
    assert longer.config.stop_at_return == -1e9
    assert [row["seed"] for row in rows(folder) if row["kind"] == "ended"] == list(SEEDS)
    with pytest.raises(InputError, match="stop_at_return takes a value of type float"):
        lfiw.resume(folder, stop_at_return="high", workers=0, quiet=True)


def test_best_is_asked_for_in_words(control: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Unknown policy 'bset'. Did you mean best\?"):
        lfiw.load_policy(control, which="bset")  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match=r"no best policy of seed 9\. It has: best-seed-0, best-seed-3"
    ):
        lfiw.load_policy(control, seed=9, which="best")


def test_on_the_command_line(control: Path, tmp_path: Path, capsys: Any) -> None:
    options = [
        *("--seeds", "0", "--replay", "uniform", "--workers", "0", "--out", str(tmp_path)),
        *("--env-steps", "600", "--stop-at-return", "-1e9", "--set"),
        *("agent.hidden_sizes=16,16", "batch_size=32", "buffer_size=200", "phase_env_steps=50"),
        *("random_env_steps=100", "learning_starts=100", "eval_every_env_steps=200"),
    ]
    with pytest.raises(SystemExit) as ended:
        main(["train", ENV, *options])
    assert ended.value.code == 0
    folder = tmp_path / "environments-make_point" / "sac-uniform"
    assert rows(folder)[-1]["kind"] == "ended" and rows(folder)[-1]["env_steps"] == 200
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(folder), "--which", "best", "--episodes", "1", "--json"])
    assert ended.value.code == 0
    assert '"seed": 0' in capsys.readouterr().out
