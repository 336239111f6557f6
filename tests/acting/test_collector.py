import os
from typing import Any

import numpy as np
import pytest
from processes import PATIENCE, children_of

from lfiw.acting.collector import Collector
from lfiw.acting.episodes import Episode
from lfiw.acting.evaluator import Evaluator
from lfiw.acting.rollout import EnvRunner
from lfiw.acting.worker import ProcessWorker
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError

RNG = np.random.default_rng(0)
POINT = EnvConfig("environments:make_point", {"length": 7})
SEEDS = (4, 0, 9)


def random_policy(outputs: int = 4, obs_size: int = 2) -> dict[str, np.ndarray]:
    """Wide enough for BLAS to use threads, if it may."""
    sizes = (obs_size, 300, 300, outputs)
    return {
        f"gaussian.{index}.{name}": RNG.standard_normal(shape, np.float32) / np.sqrt(sizes[index])
        for index in range(3)
        for name, shape in (
            ("weight", (sizes[index], sizes[index + 1])),
            ("bias", (sizes[index + 1],)),
        )
    }


POLICIES = [random_policy() for _ in SEEDS]


def collect_twice(num_workers: int) -> tuple[np.ndarray, list[list[Episode]]]:
    """A random phase, then one with policies."""
    collector = Collector(POINT, SEEDS, num_workers)
    try:
        first = collector.collect(random_actions(len(SEEDS)), 5)
        second = collector.collect(dict(enumerate(POLICIES)), 20)
    finally:
        collector.close()
    rows = [np.concatenate([first[run].rows, second[run].rows]) for run in range(len(SEEDS))]
    return np.stack(rows), [part.episodes for part in second.values()]


def random_actions(runs: int) -> dict[int, None]:
    return dict.fromkeys(range(runs))


@pytest.fixture(scope="module")
def alone() -> tuple[np.ndarray, list[list[Episode]]]:
    """Each run by itself, without a collector."""
    rows, episodes = [], []
    for seed, policy in zip(SEEDS, POLICIES, strict=True):
        collector = Collector(POINT, [seed], 1)
        first = collector.collect({0: None}, 5)[0]
        second = collector.collect({0: policy}, 20)[0]
        collector.close()
        rows.append(np.concatenate([first.rows, second.rows]))
        episodes.append(second.episodes)
    return np.stack(rows), episodes


@pytest.mark.parametrize("num_workers", [0, 1, 2, 3, 8])
def test_rows_do_not_depend_on_the_number_of_workers(num_workers: int, alone: Any) -> None:
    rows, episodes = collect_twice(num_workers)
    assert rows.shape == (3, 25, 2 * 2 + 2 + 2)
    np.testing.assert_array_equal(rows, alone[0])
    assert episodes == alone[1]
    assert [len(ended) for ended in episodes] == [3, 3, 3]


def test_runs_differ(alone: Any) -> None:
    rows, _ = alone
    assert not np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[1], rows[2])


def test_runs_are_spread_over_the_workers() -> None:
    collector = Collector(EnvConfig("environments:make_report"), range(5), 2)
    collected = collector.collect(random_actions(5), 1)
    collector.close()
    pids = [part.rows[0, 0] for part in collected.values()]
    assert len(set(pids)) == 2
    assert pids[0] == pids[2] == pids[4] != pids[1] == pids[3]
    assert os.getpid() not in pids


def test_some_of_the_runs() -> None:
    """Those that are left out stay where they are."""
    whole, parts = (Collector(POINT, SEEDS, 2) for _ in range(2))
    expected = whole.collect(random_actions(3), 10)
    first = parts.collect({2: None, 0: None}, 10)
    second = parts.collect({1: None}, 10)
    whole.close()
    parts.close()
    assert list(first) == [2, 0]
    for run, part in (first | second).items():
        np.testing.assert_array_equal(part.rows, expected[run].rows)


def test_no_more_workers_than_runs() -> None:
    collector = Collector(POINT, [0], 4)
    assert len(collector.workers) == 1
    collector.close()


def test_no_workers_means_this_process() -> None:
    collector = Collector(EnvConfig("environments:make_report"), range(2), 0)
    collected = collector.collect(random_actions(2), 1)
    collector.close()
    assert {part.rows[0, 0] for part in collected.values()} == {os.getpid()}


def test_sick_environment_is_named() -> None:
    config = EnvConfig("environments:make_faulty", {"fault": "reward", "at": 3})
    collector = Collector(config, range(2), 2)
    with pytest.raises(InputError, match="non-finite reward at environment step 3"):
        collector.collect(random_actions(2), 4)
    collector.close()


def test_failed_start_leaves_no_worker() -> None:
    before = children_of(os.getpid())
    with pytest.raises(InputError) as raised:
        Collector(EnvConfig("environments:make_broken"), range(2), 2)
    assert "the cable is loose" in str(raised.value)  # held, as a notebook holds the last error
    assert children_of(os.getpid()) == before


def test_close_ends_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They end by themselves, if they are given the time."""
    monkeypatch.setattr(ProcessWorker.close, "__defaults__", (PATIENCE,))
    collector = Collector(POINT, range(2), 2)
    processes = [worker._process for worker in collector.workers]  # type: ignore[union-attr]
    assert [process.poll() for process in processes] == [None, None]
    collector.close()
    assert [process.poll() for process in processes] == [0, 0]


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_evaluation_does_not_depend_on_the_number_of_workers(num_workers: int) -> None:
    evaluator = Evaluator(POINT, num_workers)
    try:
        futures = [evaluator.submit(policy, [1, 2]) for policy in POLICIES]
        results = [future.result().episodes for future in futures]
    finally:
        evaluator.close()
    assert all(episode.length == 7 for episodes in results for episode in episodes)
    runner = EnvRunner(POINT, seed=0)
    for policy, episodes in zip(POLICIES, results, strict=True):
        obs, _ = runner.env.reset(seed=2)
        total = 0.0
        for _ in range(7):
            x = obs
            for index in range(2):
                x = np.maximum(
                    x @ policy[f"gaussian.{index}.weight"] + policy[f"gaussian.{index}.bias"], 0
                )
            outputs = x @ policy["gaussian.2.weight"] + policy["gaussian.2.bias"]
            obs, reward, *_ = runner.env.step(np.tanh(outputs[:2]))
            total += reward
        assert episodes[1].total_reward == pytest.approx(total, rel=1e-4)


def test_failed_evaluation_leaves_no_worker() -> None:
    before = children_of(os.getpid())
    config = EnvConfig("environments:make_faulty", {"fault": "raise", "at": 1}, max_faults=3)
    evaluator = Evaluator(config, 1)
    future = evaluator.submit(random_policy(2, 3), range(9))
    episodes, faults = future.result()
    assert episodes == []
    assert "failed 4 times" in faults[-1]
    evaluator.close()
    assert children_of(os.getpid()) == before
