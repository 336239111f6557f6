"""Every agent with every strategy solves a small task, which no untrained policy does."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from environments import Point
from small import compiled_programs_kept_in, small

from lfiw import train
from lfiw.acting.evaluator import eval_seeds
from lfiw.acting.policy import NumpyPolicy
from lfiw.agents import AGENTS
from lfiw.replay import REPLAYS
from lfiw.runs.policies import load_policy

SEEDS = (0, 1)
EPISODES = 20


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory: Any) -> Iterator[None]:
    with compiled_programs_kept_in(tmp_path_factory.mktemp("programs")):
        yield


def mean_return(act: Callable[[np.ndarray], np.ndarray], seed: int) -> float:
    """Over the evaluation episodes of a seed."""
    env = Point()
    total = 0.0
    for reset_seed in eval_seeds(seed, EPISODES, None):
        obs, _ = env.reset(seed=reset_seed)
        for _ in range(env.length):
            obs, reward, *_ = env.step(act(obs))
            total += reward
    return total / EPISODES


def best_action(obs: np.ndarray) -> np.ndarray:
    """Straight to the origin along each axis."""
    return np.clip(-obs / Point.step_size, -1, 1)


@cache
def threshold(seed: int) -> float:
    """At most 15 % of what the best policy gains over random actions may be missing."""
    rng = np.random.default_rng(0)
    best = mean_return(best_action, seed)
    random = mean_return(lambda obs: rng.uniform(-1, 1, 2), seed)
    return best + 0.15 * (random - best)


def untrained_policy(rng: np.random.Generator) -> NumpyPolicy:
    """As the agents start: each layer uniform within 1 / sqrt(inputs)."""
    arrays = {}
    sizes = (2, 64, 64, 2)
    for index, (inputs, outputs) in enumerate(pairwise(sizes)):
        limit = 1 / np.sqrt(inputs)
        arrays[f"deterministic.{index}.weight"] = rng.uniform(-limit, limit, (inputs, outputs))
        arrays[f"deterministic.{index}.bias"] = rng.uniform(-limit, limit, outputs)
    return NumpyPolicy(arrays)


@pytest.mark.parametrize("seed", SEEDS)
def test_luck_is_not_enough(seed: int) -> None:
    """Returns are negative: the best of 100 untrained policies loses twice the threshold."""
    rng = np.random.default_rng(1)
    returns = [mean_return(untrained_policy(rng).act, seed) for _ in range(100)]
    assert max(returns) < 2 * threshold(seed)
    assert mean_return(lambda obs: np.zeros(2), seed) < 2 * threshold(seed)
    assert mean_return(best_action, seed) > threshold(seed) / 3


METHODS = [(agent, replay) for agent in AGENTS for replay in REPLAYS]


@pytest.mark.parametrize(
    ("agent", "replay"),
    [
        pytest.param(*method, marks=() if method == ("sac", "lfiw") else pytest.mark.slow)
        for method in METHODS
    ],
)
def test_every_method_learns(tmp_path: Path, agent: str, replay: str) -> None:
    settings = small(
        replay,
        env_steps=2000,
        buffer_size=1500,
        batch_size=64,
        random_env_steps=200,
        learning_starts=200,
        eval_every_env_steps=2000,
        eval_episodes=EPISODES,
        eval_starts="fixed",  # as `mean_return` has them
        **{"agent.hidden_sizes": (64, 64), "agent.learning_rate": 1e-3},
    )
    if agent in ("xqc", "flashsac"):  # fewer policy updates; a horizon for 1000 steps
        settings |= {"env_steps": 4000, "eval_every_env_steps": 4000, "agent.gamma": 0.9}
    if replay == "lfiw":
        settings |= {"replay.hidden_sizes": (64, 64), "replay.fast_size": 500}
    for seed in SEEDS:  # one after the other: the second finds its program compiled
        out = tmp_path / str(seed)
        options = {"seeds": (seed,), "out": out, "workers": 0, "quiet": True, **settings}
        run = train("environments:make_point", agent, replay, **options)
        policy = load_policy(run, seed)
        reached = mean_return(lambda obs, policy=policy: policy.predict(obs)[0], seed)
        assert reached > threshold(seed)
        assert run.evaluations()[-1]["return_mean"] == pytest.approx(reached, rel=1e-4)
