"""Workers and environments that die, hang or raise cost an episode, and are counted."""

import dataclasses
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import PATIENCE, children_of, wait_for, wait_until_gone
from small import as_options, compiled_programs_kept_in, small
from trainings import command

import lfiw
from lfiw.acting.collector import Collector
from lfiw.acting.envs import Watched, make_env
from lfiw.acting.episodes import run_episodes
from lfiw.acting.evaluator import Evaluator
from lfiw.acting.rollout import Collected
from lfiw.acting.spaces import check_spaces
from lfiw.acting.worker import ProcessWorker
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError, RunError
from lfiw.runs.read import read_metrics
from lfiw.training.resume import resume_all
from lfiw.types import EnvSpec, row_columns

HANG_SECONDS = 10.0  # an honest start or step takes a twentieth of it
NO_LEARNING = {"learning_starts": 1000, "buffer_size": 1000}  # hence no program to compile
DIARY = EnvSpec(obs_size=3, action_size=1)
DIARY_CONFIG = EnvConfig("environments:make_diary", {"length": 50})
DIARY_POLICY = {
    "gaussian.0.weight": np.zeros((3, 2), np.float32),
    "gaussian.0.bias": np.zeros(2, np.float32),
}


def flaky(timeout_seconds: float = PATIENCE, **chances: float) -> EnvConfig:
    return EnvConfig("environments:make_flaky", chances, None, timeout_seconds, max_faults=100)


def faulty(fault: str, at: int = 3, timeout_seconds: float = PATIENCE, **more: Any) -> EnvConfig:
    kwargs = {"fault": fault, "at": at, **more}
    return EnvConfig("environments:make_faulty", kwargs, None, timeout_seconds)


def random_actions(runs: int) -> dict[int, None]:
    return dict.fromkeys(range(runs))


def assert_no_row_joins_episodes(rows: np.ndarray) -> int:
    """Rows of a diary, which observes (episode, time, reset seed). Returns how often an episode
    began."""
    columns = row_columns(DIARY)
    obs = rows[:, columns.obs]
    np.testing.assert_array_equal(rows[:, columns.next_obs] - obs, [[0, 1, 0]] * len(rows))
    np.testing.assert_array_equal(rows[:, columns.reward], obs[:, 1])
    follows = np.all(obs[1:] == rows[:-1, columns.next_obs], axis=1)
    begins = obs[1:, 1] == 0
    assert np.all(follows ^ begins)
    return 1 + int(begins.sum())


def workers_of(collector: Collector) -> list[ProcessWorker]:
    return [worker for worker in collector.workers if isinstance(worker, ProcessWorker)]


def processes_of(collector: Collector) -> list[subprocess.Popen[bytes]]:
    return [worker._process for worker in workers_of(collector)]


@pytest.fixture
def collectors() -> Iterator[Any]:
    opened: list[Collector] = []

    def make(config: EnvConfig, runs: int, workers: int) -> Collector:
        opened.append(Collector(config, range(runs), workers))
        return opened[-1]

    yield make
    for collector in opened:
        collector.close()


@pytest.mark.parametrize("moment", ["idle", "collecting"])
def test_killed_worker_costs_its_runs_one_episode(collectors: Any, moment: str) -> None:
    """Runs 0 and 2 live in the worker that is killed, run 1 in another."""
    undisturbed, collector = (collectors(DIARY_CONFIG, 3, 2) for _ in range(2))
    first = collector.collect(random_actions(3), 20)
    worker = workers_of(collector)[0]
    victim, called = worker._process, worker._called
    if moment == "idle":
        victim.kill()
    else:
        os.kill(victim.pid, signal.SIGSTOP)
        threading.Thread(
            target=lambda: (wait_for(lambda: worker._called != called), victim.kill())
        ).start()
    second = collector.collect(random_actions(3), 90)
    third = collector.collect(random_actions(3), 10)
    assert victim.returncode == -signal.SIGKILL
    assert victim not in processes_of(collector)

    expected = (
        undisturbed.collect(random_actions(3), 20),
        undisturbed.collect(random_actions(3), 90),
    )
    np.testing.assert_array_equal(first[1].rows, expected[0][1].rows)
    np.testing.assert_array_equal(second[1].rows, expected[1][1].rows)
    for run in range(3):
        rows = np.concatenate([part[run].rows for part in (first, second, third)])
        assert len(rows) == 120
        died = run != 1
        assert_no_row_joins_episodes(rows)
        assert [len(part[run].faults) for part in (first, second, third)] == [0, int(died), 0]
    assert second[0].faults == ["A worker process died with exit code -9"]
    # Other episodes than those at the start of the run, though the process began anew.
    assert second[0].rows[0, 1] == 0
    assert second[0].rows[0, 2] not in first[0].rows[:, 2]


@pytest.mark.parametrize(
    ("workers", "more"),
    [
        (0, {}),
        (2, {"dies": 0.003}),
        pytest.param(2, {"dies": 0.002, "hangs": 0.001}, marks=pytest.mark.slow),
    ],
)
def test_rows_never_join_episodes_whatever_happens(
    collectors: Any, workers: int, more: dict[str, float]
) -> None:
    chances = {"step_raises": 0.01, "reset_raises": 0.1, **more}
    collector = collectors(flaky(HANG_SECONDS, **chances), 3, workers)
    phases = [collector.collect(random_actions(3), 100) for _ in range(6)]
    begun = faults = 0
    for run in range(3):
        rows = np.concatenate([phase[run].rows for phase in phases])
        assert len(rows) == 600
        begun += assert_no_row_joins_episodes(rows)
        faults += sum(len(phase[run].faults) for phase in phases)
    assert begun > 3 * 600 / 50
    assert faults > 0


def test_state_after_a_fault_can_be_restored(collectors: Any) -> None:
    """The actions of the episode so far begin where the episode did."""
    collector, other = (collectors(DIARY_CONFIG, 1, 1) for _ in range(2))
    collector.collect({0: None}, 30)
    processes_of(collector)[0].kill()
    state = collector.collect({0: None}, 70)[0].state  # an episode of 50, and 20 of the next
    assert len(state.actions) == 20
    # A diary counts its episodes, and this one has seen another number of them.
    other.restore({0: state}, allow_inexact=True)
    mine, theirs = (each.collect({0: None}, 60)[0].rows for each in (collector, other))
    np.testing.assert_array_equal(mine[:, 1:3], theirs[:, 1:3])


def test_all_workers_that_hang_are_found_in_one_time_out(
    collectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hang before the first is asked for its answer, and when it is found to hang the time
    of the second is over too: it is given no other."""
    timeout = 0.5
    collector = collectors(faulty("hang", at=30, told=str(tmp_path)), 2, 2)
    collector.collect(random_actions(2), 29)
    old = processes_of(collector)
    first, second = workers_of(collector)
    first._timeout = second._timeout = timeout
    called, answer, poll = second._called, first.result, second._connection.poll
    granted = []

    def when_both_are_overdue() -> Any:
        assert second._called > called  # it was not left waiting for the first
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        time.sleep(2 * timeout)
        return answer()

    monkeypatch.setattr(first, "result", when_both_are_overdue)
    monkeypatch.setattr(
        second._connection, "poll", lambda seconds: (granted.append(seconds), poll(seconds))[1]
    )
    collected = collector.collect(random_actions(2), 5)
    assert [part.faults for part in collected.values()] == [["A worker was silent for 0.5 s"]] * 2
    assert [process.returncode for process in old] == [-signal.SIGKILL] * 2
    assert granted and set(granted) == {0}


@pytest.mark.parametrize("fault", ["exit", "hang", "hang in C"])
def test_the_very_first_step_may_fail_too(tmp_path: Path, fault: str) -> None:
    """Where the environment is tried before anything is written. How long the start takes does
    not matter: one that hangs is silent, sooner or later."""
    config = faulty(fault, at=1, timeout_seconds=PATIENCE if fault == "exit" else 0.5)
    why = "died with exit code 7" if fault == "exit" else "was silent for 0.5 s"
    with pytest.raises(InputError, match=f"make_faulty cannot be stepped: A worker .*{why}"):
        lfiw.train(config, out=tmp_path / "runs", workers=1, quiet=True)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("fault", ["exit", "hang", "hang in C"])
def test_limit_stops_with_a_sentence_and_leaves_no_process(collectors: Any, fault: str) -> None:
    config = dataclasses.replace(faulty(fault), max_faults=1)
    collector = collectors(config, 1, 1)
    if fault != "exit":  # set now, since opening it may take longer
        collector._config = dataclasses.replace(config, timeout_seconds=0.5)
        workers_of(collector)[0]._timeout = 0.5
    with pytest.raises(RunError) as raised:
        collector.collect({0: None}, 5)
    why = "died with exit code 7" if fault == "exit" else "was silent for 0.5 s"
    assert str(raised.value).startswith(
        "environments:make_faulty failed 2 times within one phase or evaluation, more than "
        "env.max_faults 1 allows; the last time: A worker "
    )
    assert str(raised.value).endswith(f"{why}.")
    collector.close()
    assert [process.poll() is None for process in processes_of(collector)] == [False]


@pytest.mark.parametrize(
    ("workers", "chances"),
    [
        (0, {"step_raises": 0.01, "reset_raises": 0.2}),
        (1, {"step_raises": 0.01, "reset_raises": 0.2}),
        (2, {"dies": 0.01}),
        pytest.param(2, {"dies": 0.01, "hangs": 0.001}, marks=pytest.mark.slow),
    ],
)
def test_evaluation_is_repeated(workers: int, chances: dict[str, float]) -> None:
    healthy = Evaluator(DIARY_CONFIG, workers)
    evaluator = Evaluator(flaky(HANG_SECONDS, **chances), workers)
    try:
        expected = healthy.submit(DIARY_POLICY, range(2)).result()
        futures = [evaluator.submit(DIARY_POLICY, range(2)) for _ in range(12)]
        results = [future.result() for future in futures]
    finally:
        healthy.close()
        evaluator.close()
    assert expected.faults == []
    assert all(result.episodes == expected.episodes for result in results)
    assert sum(len(result.faults) for result in results) > 0


def test_simulator_that_resets_itself_cuts_the_episode(collectors: Any) -> None:
    """MuJoCo starts again within the fifth step of every episode; four rows of each are kept."""
    config = EnvConfig("environments:make_exploding", {"at": 5})
    collected: Collected = collectors(config, 1, 0).collect({0: None}, 14)[0]
    assert collected.episodes == []
    assert len(collected.faults) == 3
    assert all("MuJoCo reset itself (mjWARN_BADQVEL)" in fault for fault in collected.faults)
    columns = row_columns(EnvSpec(obs_size=17, action_size=6))
    obs, next_obs = collected.rows[:, columns.obs], collected.rows[:, columns.next_obs]
    follows = np.all(obs[1:] == next_obs[:-1], axis=1)
    np.testing.assert_array_equal(follows, [(row + 1) % 4 != 0 for row in range(13)])
    assert np.abs(next_obs).max() < 20


def test_simulator_that_resets_itself_ends_an_evaluation_episode() -> None:
    config = EnvConfig("environments:make_exploding", {"at": 5})
    env = Watched(make_env(config), lambda: None)
    _, scale = check_spaces(env, config.id)
    policy = {
        "gaussian.0.weight": np.zeros((17, 12), np.float32),
        "gaussian.0.bias": np.zeros(12, np.float32),
    }
    assert [episode.length for episode in run_episodes(env, scale, policy, [0, 1])] == [4, 4]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: Any) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("programs")
    with compiled_programs_kept_in(folder):
        yield folder


def ring_rows(run: Path, seed: int, row_size: int) -> np.ndarray:
    files = sorted((run / "ring" / f"seed-{seed}").glob("rows-*.f32"))
    return np.concatenate([np.fromfile(file, "<f4") for file in files]).reshape(-1, row_size)


def test_training_survives_and_counts(tmp_path: Path) -> None:
    env = flaky(step_raises=0.01, reset_raises=0.02, dies=0.002)
    settings = small("uniform", seeds=(0, 1, 2), **NO_LEARNING)
    run = lfiw.train(env, "sac", "uniform", out=tmp_path, workers=2, quiet=True, **settings)
    rows = read_metrics(run, "train")
    assert [row["env_steps"] for row in rows if row["seed"] == 1] == list(range(50, 601, 50))
    assert sum(len(row.get("faults", ())) for row in rows) > 0
    assert len(read_metrics(run, "eval")) == 9
    for seed in (0, 1, 2):
        stored = ring_rows(run.folder, seed, DIARY.row_size)
        assert len(stored) == 600
        assert_no_row_joins_episodes(stored)


@pytest.mark.parametrize("workers", [0, 2])
def test_limit_leaves_a_checkpoint_from_which_the_run_goes_on(
    tmp_path: Path, programs: Path, workers: int
) -> None:
    """After the repair the run ends with the bits of one that never failed."""
    fuse = tmp_path / "fuse"
    settings = small("uniform", seeds=(0, 1), **{"env.max_faults": 3})

    def train(out: str, **kwargs: Any) -> Path:
        env = EnvConfig("environments:make_breaking", kwargs)
        lfiw.train(
            env, "sac", "uniform", out=tmp_path / out, workers=workers, quiet=True, **settings
        )
        return tmp_path / out / "environments-make_breaking" / "sac-uniform"

    with pytest.raises(RunError) as raised:
        train("broken", fuse=str(fuse), at=325)
    assert str(raised.value).startswith(
        "sac-uniform stopped: environments:make_breaking failed 4 times within one phase"
    )
    assert "the last time: RuntimeError: no power (environments.py:" in str(raised.value)
    fuse.write_text("mended")
    broken = tmp_path / "broken" / "environments-make_breaking" / "sac-uniform"
    assert max(row["env_steps"] for row in read_metrics(broken)) == 300
    resume_all([broken], workers=workers, quiet=True)
    healthy = train("healthy")
    for seed in (0, 1):
        names = [f"policies/seed-{seed}.safetensors", f"ring/seed-{seed}/rows-000000.f32"]
        for name in names:
            assert (broken / name).read_bytes() == (healthy / name).read_bytes()


def shared_memory_of(pid: int) -> set[Path]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split()[-1]) for line in lines if "/dev/shm/" in line}


def kill_while_environments_hang(tmp_path: Path) -> float:
    """They let no other thread of their worker run. Returns how many seconds it took for all
    that the command had to be gone."""
    told = tmp_path / "told"
    told.mkdir()
    fault = {"env.kwargs.fault": "hang in C", "env.kwargs.at": 100, "env.kwargs.told": told}
    fault["env.timeout_seconds"] = PATIENCE
    settings = small("uniform", **NO_LEARNING, **fault)
    options = ("--replay", "uniform", "--num-seeds", "2", "--workers", "2", *as_options(settings))
    training = command("train", "environments:make_faulty", "--out", str(tmp_path), *options)
    wait_for(lambda: len(list(told.iterdir())) == 2, training)
    workers = children_of(training.pid)
    assert workers >= {int(path.name) for path in told.iterdir()}
    shared = {path for pid in (training.pid, *workers) for path in shared_memory_of(pid)}
    training.kill()
    training.communicate()
    killed = time.monotonic()
    wait_until_gone([*workers])
    assert not any(map(Path.exists, shared))
    return time.monotonic() - killed


def test_killed_command_leaves_no_worker_and_no_shared_memory(tmp_path: Path) -> None:
    kill_while_environments_hang(tmp_path)


@pytest.mark.faults
def test_workers_of_a_killed_command_are_gone_within_five_seconds(tmp_path: Path) -> None:
    assert kill_while_environments_hang(tmp_path) < 5  # on an idle machine


@pytest.mark.faults
def test_50k_steps_with_the_full_rate_of_faults(tmp_path: Path) -> None:
    """Environments raise and stall, and every 30 s a worker is killed. What it costs beyond the
    stalls is compared with runs before and after it in which nothing goes wrong."""
    chances = {"step_raises": 1e-4, "reset_raises": 1e-3, "stalls": 5e-4}
    settings = {
        "agent.hidden_sizes": (128, 128),
        "env.kwargs.length": 100,
        "eval_episodes": 1,
    }
    stalls = tmp_path / "stalls"
    faulty_settings = settings | {f"env.kwargs.{name}": rate for name, rate in chances.items()}
    faulty_settings["env.kwargs.stall_log"] = stalls
    before, _ = train_while_killing(tmp_path / "before", settings, kill_every=None)
    seconds, killed = train_while_killing(tmp_path / "faulty", faulty_settings, kill_every=30)
    after, _ = train_while_killing(tmp_path / "after", settings, kill_every=None)

    run = tmp_path / "faulty" / "environments-make_flaky" / "sac-uniform"
    rows = read_metrics(run, "train")
    faults = [fault for row in rows for fault in row.get("faults", ())]
    stored = ring_rows(run, 0, DIARY.row_size)
    assert len(stored) == 50_000
    assert_no_row_joins_episodes(stored)
    assert killed > 0
    assert faults
    stalled = sum(float(line) for line in stalls.read_text().split())
    loss = (seconds - stalled) / ((before + after) / 2) - 1
    print(
        f"{len(faults)} faults, {killed} kills, {seconds:.0f} s of which {stalled:.0f} s stalled,"
    )
    print(f"{before:.0f} and {after:.0f} s without faults: throughput loss {loss:.1%}")
    assert loss < 0.1


def train_while_killing(
    out: Path, settings: dict[str, Any], kill_every: float | None
) -> tuple[float, int]:
    """How many seconds it took, and how many workers were killed."""
    options = ("--replay", "uniform", "--env-steps", "50000")
    training = command(
        *("train", "environments:make_flaky", "--out", str(out), "--workers", "1"),
        *(*options, *as_options(settings)),
    )
    luck = random.Random(0)
    killed = 0
    started = time.monotonic()
    next_kill = started + (kill_every or float("inf"))
    while training.poll() is None:
        time.sleep(0.2)
        if time.monotonic() > next_kill:
            os.kill(luck.choice(sorted(children_of(training.pid))), signal.SIGKILL)
            killed += 1
            next_kill += kill_every or 0
    assert training.returncode == 0, training.communicate()
    return time.monotonic() - started, killed
