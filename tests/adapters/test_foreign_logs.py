"""Logs that Stable-Baselines3 and SBX write themselves, read by `lfiw report`."""

import csv
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from lfiw.report import write_report
from lfiw.results.method import Method
from lfiw.results.methods import read_methods

pytest.importorskip("stable_baselines3")
TASK = "CartPole-v1"


def train(algorithm: type[Any], folder: Path, seed: int, env_steps: int, **settings: Any) -> None:
    """With everything that the library can write: evaluations, monitors and TensorBoard files."""
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.monitor import Monitor

    name = algorithm.__name__
    run = folder / "logs" / f"{name.lower()}_{seed}"
    env = make_vec_env(TASK, 2, seed=seed, monitor_dir=str(run))
    evaluations = EvalCallback(
        Monitor(gymnasium.make(TASK)),
        log_path=str(run),
        eval_freq=100,
        n_eval_episodes=2,
        verbose=0,
    )
    model = algorithm(
        "MlpPolicy", env, seed=seed, tensorboard_log=str(folder / "tb" / TASK), **settings
    )
    model.learn(env_steps, callback=evaluations, tb_log_name=name, log_interval=1)
    env.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from stable_baselines3 import A2C, PPO

    folder: Path = tmp_path_factory.mktemp("sb3")
    for seed in (0, 1):
        train(A2C, folder, seed, 800 + 200 * seed)
        train(PPO, folder, seed, 800 + 200 * seed, n_steps=100, batch_size=50, n_epochs=1)
    return folder


def by_name(methods: list[Method]) -> dict[str, Method]:
    return {method.name.lower(): method for method in methods}


def test_evaluations(folder: Path) -> None:
    methods = by_name(read_methods([folder / "logs"]))
    assert list(methods) == ["a2c", "ppo"]
    for name, method in methods.items():
        assert (method.task, method.curves.seeds) == (TASK, (0, 1))
        # Every 100 calls of two environments, up to the shorter run's end.
        assert method.curves.env_steps.tolist() == [200, 400, 600, 800]
        for seed, returns in enumerate(method.curves.returns):
            stored = np.load(folder / "logs" / f"{name}_{seed}" / "evaluations.npz")
            np.testing.assert_allclose(returns, stored["results"].mean(axis=1)[:4])


def test_tensorboard_has_the_same_evaluations(folder: Path) -> None:
    expected = by_name(read_methods([folder / "logs"]))
    found = by_name(read_methods([folder / "tb"]))
    assert list(found) == list(expected)
    for name, method in found.items():
        assert (method.task, method.curves.seeds) == (TASK, (1, 2))
        np.testing.assert_allclose(method.curves.returns, expected[name].curves.returns, rtol=1e-6)


def test_monitors_as_the_library_reads_them(folder: Path) -> None:
    """Its own reader sums the lengths in order of time, and means over 100 episodes are its
    `rollout/ep_rew_mean`."""
    from stable_baselines3.common.monitor import load_results

    run = folder / "logs" / "a2c_1"
    paths = sorted(run.glob("*.monitor.csv"))
    assert len(paths) == 2
    from lfiw.results.foreign_logs import read_monitors

    log = read_monitors(paths)
    table = load_results(str(run))
    np.testing.assert_array_equal(log.env_steps, table["l"].cumsum())
    np.testing.assert_allclose(log.returns, table["r"])
    assert log.env == TASK


def test_report_with_intervals(folder: Path, tmp_path: Path) -> None:
    write_report([folder / "logs"], tmp_path / "report", baseline="ppo")
    with (tmp_path / "report" / "cells.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    low, value, high = (float(rows["a2c"][f"improvement{part}"]) for part in ("_low", "", "_high"))
    assert 0 <= low <= value <= high <= 1


def test_sbx_and_torch_write_the_same_files(tmp_path: Path) -> None:
    sbx = pytest.importorskip("sbx")
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    train(sbx.PPO, tmp_path, 0, 400, n_steps=100, batch_size=50, n_epochs=1)
    # As CleanRL's programs do.
    with tensorboard.SummaryWriter(str(tmp_path / "runs" / f"{TASK}__dqn__1__1700000000")) as log:
        log.add_text("hyperparameters", "|param|value|\n|-|-|\n|seed|1|")
        for env_steps in (10, 200, 400, 500):
            log.add_scalar("charts/episodic_return", np.float32([env_steps / 10])[0], env_steps)
    methods = by_name(read_methods([tmp_path / "tb", tmp_path / "runs"]))
    assert {method.task for method in methods.values()} == {TASK}
    assert methods["ppo"].curves.env_steps.tolist() == [200, 400]
    np.testing.assert_allclose(methods["dqn"].curves.returns, [[(1 + 20) / 2, (1 + 20 + 40) / 3]])
