"""EnvPool's tasks against Gymnasium's, and the promises of a run when EnvPool steps it."""

import importlib.util
import itertools
import json
import random
import signal
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from processes import finish
from small import as_options, small
from trainings import command, contents, kill_in_training, rows

from lfiw.acting.collector import Collector
from lfiw.acting.envpool import TASKS
from lfiw.acting.envs import make_env
from lfiw.acting.rollout import EnvRunner
from lfiw.acting.spaces import probe_env
from lfiw.bench.collect import bench_collect
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.learning.config import config_from_json, make_config
from lfiw.settings import to_json

needs_envpool = pytest.mark.skipif(
    importlib.util.find_spec("envpool") is None,
    reason="EnvPool is not installed; .venv/bin/pip install -e '.[envpool]' brings it.",
)
# Positions that the observation leaves out, since nothing depends on them.
FREE_BODIES = ("Ant-v5", "Humanoid-v5", "HumanoidStandup-v5")
HIDDEN_POSITIONS = dict.fromkeys(TASKS, 1) | dict.fromkeys((*FREE_BODIES, "Swimmer-v5"), 2)
HIDDEN_POSITIONS["InvertedPendulum-v5"] = 0
MUJOCO_OF_ENVPOOL = {"1.2.5": "3.6.0", "1.2.7": "3.11.0"}


def on_envpool(env_id: str, **settings: Any) -> EnvConfig:
    return EnvConfig(env_id, backend="envpool", **settings)


def put_into_state(task: Any, obs: np.ndarray) -> None:
    """Put a Gymnasium environment into the state of an episode's first observation."""
    hidden = HIDDEN_POSITIONS[task.spec.id]
    positions = task.model.nq - hidden
    qpos = np.concatenate([np.zeros(hidden), obs[:positions]])
    task.set_state(qpos, obs[positions : positions + task.model.nv])


def relative_error(value: Any, expected: Any) -> float:
    return float(np.max(np.abs(value - expected) / (1 + np.abs(expected))))


@needs_envpool
@pytest.mark.parametrize("env_id", TASKS)
def test_dynamics_are_gymnasiums(env_id: str) -> None:
    """Twenty short episodes: over long ones chaos makes anything of the last bit.

    With the same MuJoCo all tasks agree within rounding, contact forces too; rewards are
    float32. Another MuJoCo moves free bodies a little differently from the first step on, and
    where a foot then touches the ground in another step, much differs: so most episodes must
    agree for a few steps.
    """
    bundled = MUJOCO_OF_ENVPOOL.get(metadata.version("envpool"))
    same = mujoco.__version__ == bundled or env_id not in FREE_BODIES
    num_steps, tolerance, overall = (25, 1e-7, np.max) if same else (5, 2e-3, np.median)
    ours, theirs = make_env(on_envpool(env_id)), make_env(EnvConfig(env_id))
    task: Any = theirs.unwrapped
    assert ours.observation_space.shape == task.observation_space.shape
    assert ours.action_space == task.action_space
    rng = np.random.default_rng(0)
    obs_errors, reward_errors = np.zeros((2, 20))
    for seed in range(20):
        obs, _ = ours.reset(seed=seed)
        theirs.reset(seed=0)
        put_into_state(task, obs)
        assert relative_error(obs, task._get_obs()) < 1e-9
        for _ in range(num_steps):
            action = rng.uniform(task.action_space.low, task.action_space.high).astype(np.float32)
            obs, reward, *ends, _ = ours.step(action)
            expected, expected_reward, *expected_ends, _ = theirs.step(action)
            assert ends == expected_ends
            obs_errors[seed] = max(obs_errors[seed], relative_error(obs, expected))
            error = relative_error(reward, expected_reward)
            reward_errors[seed] = max(reward_errors[seed], error)
            if any(ends):
                break
    assert overall(obs_errors) < tolerance
    assert overall(reward_errors) < max(tolerance, 1e-6)


@needs_envpool
def test_time_limit_is_gymnasiums() -> None:
    env = make_env(on_envpool("HalfCheetah-v5"))
    env.reset(seed=0)
    idle = np.zeros(6, np.float32)
    ends = [env.step(idle)[2:4] for _ in range(1000)]
    assert ends == [(False, False)] * 999 + [(False, True)]
    # The pool itself has no limit, at which it would hide a termination.
    assert env.unwrapped.step(idle)[4]["elapsed_step"] == 1001


@needs_envpool
def test_termination_at_the_time_limit_counts_as_termination() -> None:
    def episode(**settings: Any) -> list[tuple[bool, bool]]:
        env = make_env(on_envpool("Hopper-v5", **settings))
        env.reset(seed=0)
        ends = [(False, False)]
        while not any(ends[-1]):
            ends.append(env.step(np.ones(3, np.float32))[2:4])
        return ends[1:]

    fallen = episode()
    assert fallen[-1] == (True, False)
    assert episode(max_episode_steps=len(fallen))[-1] == (True, True)
    assert episode(max_episode_steps=len(fallen) - 1)[-1] == (False, True)


@needs_envpool
def test_episode_depends_on_its_seed_and_actions_alone() -> None:
    env = make_env(on_envpool("Hopper-v5"))

    def episode(seed: int) -> np.ndarray:
        start, _ = env.reset(seed=seed)
        return np.stack([start, *(env.step(np.ones(3, np.float32))[0] for _ in range(5))])

    first, second, third = episode(1), episode(2), episode(3)
    np.testing.assert_array_equal([episode(3), episode(1), episode(2)], [third, first, second])
    for one, other in itertools.combinations((first[0], second[0], third[0]), 2):
        assert not np.any(one == other)


@needs_envpool
def test_runner_is_restored_in_its_second_episode() -> None:
    runner = EnvRunner(on_envpool("Hopper-v5"), seed=3)
    while not runner.collect(None, 1).episodes:
        pass
    runner.collect(None, 5)
    state = runner.state()
    assert len(state.actions) == 5
    rest = runner.collect(None, 100)
    assert rest.episodes
    other = EnvRunner(on_envpool("Hopper-v5"), seed=4)
    other.collect(None, 200)
    other.restore(state, allow_inexact=False)
    again = other.collect(None, 100)
    np.testing.assert_array_equal(again.rows, rest.rows)
    assert again.episodes == rest.episodes


@needs_envpool
def test_number_of_workers_changes_no_bit() -> None:
    def collected(num_workers: int) -> np.ndarray:
        collector = Collector(on_envpool("Walker2d-v5"), (4, 0, 9), num_workers)
        try:
            return collector.collect([None] * 3, 100)[0]
        finally:
            collector.close()

    in_process = collected(0)
    assert not np.array_equal(in_process[0], in_process[1])
    for num_workers in (1, 2):
        np.testing.assert_array_equal(collected(num_workers), in_process)


@needs_envpool
def test_killed_and_resumed_the_run_ends_the_same(tmp_path: Path) -> None:
    settings = small("uniform", env_steps=2000) | {"checkpoint.every_env_steps": 200}
    options = ["--replay", "uniform", "--env-backend", "envpool", *as_options(settings)]

    def train(name: str) -> Any:
        return command("train", "Hopper-v5", "--out", str(tmp_path / name), *options)

    finish(train("whole"))
    killed = tmp_path / "killed" / "Hopper-v5"
    process = train("killed")
    kill_in_training(process, killed, signal.SIGKILL, random.Random(0))
    assert process.returncode == -signal.SIGKILL
    finish(command("resume", str(killed)))
    run, expected = killed / "sac-uniform", tmp_path / "whole" / "Hopper-v5" / "sac-uniform"
    assert rows(run) == rows(expected)
    assert contents(run) == contents(expected)
    stored = json.loads((run / "config.json").read_text())
    assert stored["config"]["env"]["backend"] == "envpool"
    assert stored["versions"]["envpool"][0].isdigit()


@needs_envpool
def test_collecting_is_compared_by_backend() -> None:
    backends = ["gymnasium", "envpool"]
    result = bench_collect(make_config("Hopper-v5"), backends, [0, 1], None, 5, calls=1)
    measured = [(row["workers"], row["backend"]) for row in result.rows]
    assert measured == [(workers, backend) for workers in (0, 1) for backend in backends]
    assert all(row["env_steps_per_s"] > 0 for row in result.rows)


@needs_envpool
def test_pictures_come_from_gymnasium() -> None:
    env = make_env(on_envpool("Hopper-v5"), render_mode="rgb_array")
    assert env.spec is not None
    assert "gymnasium" in str(env.spec.entry_point)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (on_envpool("Pendulum-v1"), "does not cover 'Pendulum-v1'.*env.backend\": 'gymn"),
        (on_envpool("environments:make_point"), "does not cover 'environments:make_point'"),
        (on_envpool("Ant-v5", kwargs={"frame_skip": 2}), "takes no env.kwargs.*'frame_skip'"),
    ],
)
def test_what_is_not_covered_gets_a_sentence(env: EnvConfig, words: str) -> None:
    with pytest.raises(InputError, match=words):
        probe_env(env)


def test_missing_package_gets_a_sentence(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)  # as if it were not installed
    with pytest.raises(InputError, match=r'pip install "envpool>='):
        probe_env(on_envpool("Hopper-v5"))


def test_config_from_before_there_were_backends() -> None:
    stored = to_json(make_config("Hopper-v5"))
    assert stored["env"].pop("backend") == "gymnasium"
    assert config_from_json(stored) == make_config("Hopper-v5")
