"""How well the learned Q orders the pairs that its policy meets, against Monte-Carlo returns.

The truth of a pair is the discounted return from there on, over trajectories of the exploring
policy. SAC learns a soft Q, so its return counts the entropy of every later action. A trajectory
that a time limit cuts has a tail nobody saw: its last pairs are left out, so that the tail weighs
at most `TAIL` of a value wherever the episode is long enough (half of it is always kept).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from lfiw.acting.envs import make_env
from lfiw.acting.episodes import MAX_EVAL_STEPS
from lfiw.acting.policy import NumpyPolicy
from lfiw.acting.spaces import check_spaces
from lfiw.paper.cells import Study
from lfiw.results.catalogue import PUBLISHED
from lfiw.runs.files import write_json
from lfiw.runs.layout import SNAPSHOT_PERCENTS
from lfiw.runs.read import live_seeds, read_rows
from lfiw.runs.snapshots import load_snapshot
from lfiw.training.folder import Training

PAPER = {  # section 5.2, Humanoid-v2
    "sac-uniform": {"pearson": 0.41, "spearman": 0.11},
    f"sac-lfiw-{PUBLISHED}": {"pearson": 0.74, "spearman": 0.42},
}
NUM_TRAJECTORIES = {"smoke": 5, "small": 20, "paper": 20}  # paper, section 5.2: 20
TAIL = 0.01
FIRST_EPISODE_SEED = 20_000  # apart from the seeds of training and evaluation


class Trajectory(NamedTuple):
    obs: np.ndarray  # [T, D]
    action: np.ndarray  # [T, A]
    reward: np.ndarray  # [T]
    log_prob: np.ndarray  # [T] of the action; zeros for a deterministic policy
    terminated: bool


def run_trajectory(env: Any, policy: NumpyPolicy, seed: int) -> Trajectory:
    _, scale = check_spaces(env, "the environment")
    rng = np.random.default_rng(seed)
    steps: list[tuple[np.ndarray, np.ndarray, float, float]] = []
    obs, _ = env.reset(seed=seed)
    terminated = truncated = False
    while not (terminated or truncated) and len(steps) < MAX_EVAL_STEPS:
        obs = np.asarray(obs, np.float32)
        noise = rng.standard_normal(policy.action_size, np.float32)
        action, log_prob = policy.act(obs, noise), float(policy.log_density(obs, noise))
        next_obs, reward, terminated, truncated, _ = env.step(scale.to_env(action))
        steps.append((obs, action, float(reward), log_prob))
        obs = next_obs
    columns = [np.array(column) for column in zip(*steps, strict=True)]
    return Trajectory(columns[0], columns[1], columns[2], columns[3], terminated)


def soft_returns(trajectory: Trajectory, gamma: float, alpha: float) -> np.ndarray:
    """r_t + sum over k >= 1 of gamma^k (r_{t+k} - alpha log pi(a_{t+k} | s_{t+k}))."""
    returns = np.empty(len(trajectory.reward))
    value = 0.0  # of the state that follows, entropy included
    for t in reversed(range(len(returns))):
        returns[t] = trajectory.reward[t] + gamma * value
        value = returns[t] - alpha * trajectory.log_prob[t]
    return returns


def known_length(trajectory: Trajectory, gamma: float) -> int:
    """How many of its pairs have a return that is known but for a small tail."""
    length = len(trajectory.reward)
    if trajectory.terminated:
        return length
    tails = gamma ** np.arange(length // 2)  # weights of what is unseen, from the last pair on
    return length - int(np.count_nonzero(tails > TAIL))


def correlations(q: np.ndarray, returns: np.ndarray) -> dict[str, float | None]:
    """Pearson and Spearman; None where one of the two does not vary."""
    if len(q) < 2 or np.ptp(q) == 0 or np.ptp(returns) == 0:
        return {"pearson": None, "spearman": None}
    return {
        "pearson": float(stats.pearsonr(q, returns).statistic),
        "spearman": float(stats.spearmanr(q, returns).statistic),
    }


def entropy_weight(training: Training, seed: int) -> float:
    """SAC's alpha at the end of training; an agent without entropy logs none, and has 0."""
    rows = read_rows(training.folder, "train")
    alphas = [row["alpha"] for row in rows if row["seed"] == seed and row.get("alpha") is not None]
    return float(alphas[-1]) if alphas else 0.0


def q_quality(training: Training, seed: int, num_trajectories: int) -> dict[str, Any]:
    """Correlation of Q (the smaller of both critics, as the agent uses it) with the returns."""
    snapshot = load_snapshot(training.folder, SNAPSHOT_PERCENTS[-1], seed)
    gamma, alpha = training.config.agent.gamma, entropy_weight(training, seed)
    policy, critics = NumpyPolicy(snapshot.policy()), snapshot.network("critics")
    env = make_env(training.config.env)
    try:
        seeds = range(FIRST_EPISODE_SEED, FIRST_EPISODE_SEED + num_trajectories)
        trajectories = [run_trajectory(env, policy, episode_seed) for episode_seed in seeds]
    finally:
        env.close()
    q, returns, tails = [], [], [0.0]
    for trajectory in trajectories:
        known = known_length(trajectory, gamma)
        pairs = snapshot.pairs(trajectory.obs, trajectory.action)[:known]
        q.append(critics(pairs)[..., 0].min(axis=0))
        returns.append(soft_returns(trajectory, gamma, alpha)[:known])
        if not trajectory.terminated:
            tails.append(gamma ** (len(trajectory.reward) - known + 1))
    all_q, all_returns = np.concatenate(q), np.concatenate(returns)
    return {
        "env": training.config.env.id,
        "method": training.folder.name,
        "seed": seed,
        "trajectories": num_trajectories,
        "pairs": len(all_q),
        **correlations(all_q, all_returns),
        "alpha": alpha,
        "mean_q": float(all_q.mean()),
        "mean_return": float(all_returns.mean()),
        # The neglected tail is this share of the value of the last state, at most.
        "largest_tail_weight": max(tails),
        "largest_tail": max(tails) * float(np.abs(all_q).max()),
    }


def analyse_q_quality(study: Study) -> list[Path]:
    count = NUM_TRAJECTORIES[study.scale]
    rows = [
        q_quality(training, seed, count)
        for training in study.trainings
        for seed in live_seeds(training.folder)
    ]

    def mean(method: str, name: str) -> float | None:
        values = [row[name] for row in rows if row["method"] == method and row[name] is not None]
        return float(np.mean(values)) if values else None

    methods = list(dict.fromkeys(row["method"] for row in rows))
    path = study.out / f"{study.name}.json"
    content = {
        "truth": "discounted Monte-Carlo return of the exploring policy, entropy included",
        "paper": PAPER,
        "ours": {m: {name: mean(m, name) for name in ("pearson", "spearman")} for m in methods},
        "runs": rows,
    }
    write_json(path, content)
    return [path]
