import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_made import linear, make_run, save_snapshot

from lfiw.cli import main
from lfiw.paper.q_quality import (
    Trajectory,
    correlations,
    entropy_weight,
    known_length,
    q_quality,
    soft_returns,
)
from lfiw.runs.files import read_arrays, save_arrays
from lfiw.runs.layout import snapshot_file
from lfiw.training.folder import Training

ENV = "environments:make_countdown"  # reward 1 in each of three states, told apart


def trajectory(rewards: Any, log_prob: Any = 0.0, terminated: bool = True) -> Trajectory:
    reward = np.array(rewards, float)
    zeros = np.zeros((len(reward), 1))
    return Trajectory(zeros, zeros, reward, np.broadcast_to(log_prob, reward.shape), terminated)


def test_soft_returns_by_hand() -> None:
    """G_2 = 4; G_1 = 2 + (4 + 0.1 * 3) / 2; G_0 = 1 + (G_1 + 0.1 * 2) / 2: the entropy of the
    pair itself is no part of its Q."""
    returns = soft_returns(trajectory([1, 2, 4], [-1, -2, -3]), gamma=0.5, alpha=0.1)
    np.testing.assert_allclose(returns, [1 + (4.15 + 0.2) / 2, 4.15, 4])


@pytest.mark.parametrize(
    ("length", "terminated", "known"),
    [
        (20, True, 20),  # nothing is missing
        (20, False, 13),  # 0.5^7 < 0.01 <= 0.5^6
        (6, False, 3),  # half is always kept
    ],
)
def test_pairs_with_a_long_unseen_tail_are_left_out(
    length: int, terminated: bool, known: int
) -> None:
    assert known_length(trajectory(np.ones(length), terminated=terminated), 0.5) == known


@pytest.mark.parametrize(("gamma", "known"), [(0.0, 99), (0.99, 50), (1.0, 50)])
def test_discounts_at_their_limits(gamma: float, known: int) -> None:
    """Without discount no tail is small, and half is kept."""
    assert known_length(trajectory(np.ones(100), terminated=False), gamma) == known


def test_correlations_of_known_pairs() -> None:
    returns = np.array([1.0, 2, 3, 4])
    assert correlations(2 * returns + 1, returns) == pytest.approx({"pearson": 1, "spearman": 1})
    curved = correlations(np.exp(returns), returns)
    assert curved["spearman"] == pytest.approx(1)
    assert curved["pearson"] is not None
    assert curved["pearson"] < 0.95
    assert correlations(np.ones(4), returns) == {"pearson": None, "spearman": None}


def countdown_run(folder: Path, q: tuple[float, float, float]) -> Training:
    """TD3, so no entropy, with discount 0.5. The true Q of the three states is 1.75, 1.5, 1;
    the first critic says `q`, the second 10 more."""
    settings = {"agent.gamma": 0.5, "env.kwargs": {"length": 3}}
    run = make_run(folder, ENV, "td3", "lfiw", **settings)
    of_state = np.zeros((2, 4, 1))
    of_state[:, :3, 0] = q
    networks = {
        "policy": linear(np.zeros((3, 1)), [0.3]),
        "critics": linear(of_state, [[0], [10]]),
    }
    save_snapshot(run, 100, networks)
    return run


def test_the_true_q_correlates_perfectly(tmp_path: Path) -> None:
    found = q_quality(countdown_run(tmp_path / "run", (1.75, 1.5, 1)), 0, num_trajectories=4)
    assert (found["pearson"], found["spearman"]) == pytest.approx((1, 1))
    assert found["pairs"] == 12
    assert (found["mean_q"], found["mean_return"]) == pytest.approx((4.25 / 3, 4.25 / 3))
    assert found["largest_tail_weight"] == 0


def test_a_wrong_q_by_hand(tmp_path: Path) -> None:
    """Ranks 3, 1, 2 against 3, 2, 1: Spearman 1 - 6 * 2 / (3 * 8) = 0.5. Pearson: deviations
    (1, -1, 0) against (1, 1/4, -5/4) / 3: (3/4) / sqrt(2 * (1 + 1/16 + 25/16))."""
    found = q_quality(countdown_run(tmp_path / "run", (3, 1, 2)), 0, num_trajectories=2)
    assert found["spearman"] == pytest.approx(0.5)
    assert found["pearson"] == pytest.approx(0.75 / np.sqrt(2 * 2.625))


def test_critics_see_normalised_observations(tmp_path: Path) -> None:
    """With mean 1 and deviation 2 a one-hot observation is seen as 0 and twice -1/2: Q is minus
    half the sum of the other two, (3 + 1 + 2 = 6): -(3, 5, 4) / 2, whose mean is -2."""
    run = countdown_run(tmp_path / "run", (3, 1, 2))
    path = snapshot_file(run.folder, 100, 0)
    seen = {"observation.mean": np.ones(3, "f"), "observation.std": np.full(3, 2, "f")}
    save_arrays(path, read_arrays(path) | seen)
    assert q_quality(run, 0, num_trajectories=2)["mean_q"] == pytest.approx(-2)


def test_entropy_weight_is_the_last_of_the_seed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ENV, "sac", "uniform")
    rows = [(0, 0.3), (1, 0.9), (0, 0.2), (1, 0.8)]
    lines = [
        json.dumps({"kind": "train", "seed": seed, "env_steps": 100, "alpha": alpha})
        for seed, alpha in rows
    ]
    (run.folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert entropy_weight(run, 0) == 0.2


def test_an_agent_without_entropy_has_no_weight_of_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ENV, "td3", "uniform")
    row = {"kind": "train", "seed": 0, "env_steps": 100, "critic_loss": 1.0}
    (run.folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    assert entropy_weight(run, 0) == 0


def test_runs_trained_elsewhere_are_analysed(tmp_path: Path) -> None:
    run = countdown_run(tmp_path / "td3-lfiw", (1.75, 1.5, 1))
    with pytest.raises(SystemExit) as exited:
        where = ["--runs", str(run.folder), "--out", str(tmp_path / "out")]
        main(["reproduce", "q-quality", *where, "--trust-env"])  # its folder is made by hand
    assert exited.value.code == 0
    content = json.loads((tmp_path / "out" / "q-quality.json").read_text())
    assert content["ours"]["td3-lfiw"] == pytest.approx({"pearson": 1, "spearman": 1})
    assert content["paper"]["sac-lfiw-published"] == {"pearson": 0.74, "spearman": 0.42}
