"""Tasks whose values are known: what is learned is compared with what must be learned."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from small import compiled_programs_kept_in, small

from lfiw import Training, train
from lfiw.acting.networks import numpy_network
from lfiw.agents import AGENTS
from lfiw.env_config import EnvConfig
from lfiw.runs.policies import load_policy

GAMMA = 0.9
ACTIONS = np.linspace(-0.8, 0.8, 5, dtype=np.float32)


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory: Any) -> Iterator[None]:
    with compiled_programs_kept_in(tmp_path_factory.mktemp("programs")):
        yield


def train_probe(out: Path, agent: str, factory: str, **kwargs: Any) -> Training:
    settings = small("uniform", env_steps=2100, buffer_size=1000, phase_env_steps=100)
    settings["random_env_steps"] = 2100  # learning off-policy: all actions are known alike
    settings |= {"agent.gamma": GAMMA, "agent.learning_rate": 3e-3, "agent.tau": 0.05}
    if agent in ("xqc", "flashsac"):  # whose distributions take longer to narrow
        settings |= {"env_steps": 6300, "random_env_steps": 6300, "agent.policy_delay": 1}
    if agent != "td3":
        # So small that the entropy's part of a value, at most 10 alpha |log pi|, is below
        # 1e-3 even if alpha grows by the learning rate in each of the 2000 updates.
        settings["agent.initial_alpha"] = 1e-7
    env = EnvConfig(f"environments:{factory}", kwargs)
    return train(env, agent, "uniform", out=out, workers=0, quiet=True, **settings)


def q_values(run: Training, observations: Any) -> np.ndarray:
    """Both critics: [2, observations, ACTIONS]."""
    arrays = load_file(run.folder / "snapshots" / "100" / "seed-0.safetensors")
    critics = numpy_network(arrays, "critics")
    pairs = [
        np.concatenate([np.tile(np.float32(obs), (5, 1)), ACTIONS[:, None]], axis=1)
        for obs in observations
    ]
    return np.stack([critics(own)[..., 0] for own in pairs], axis=1)


@pytest.mark.parametrize("agent", AGENTS)
def test_time_limit_is_bootstrapped(tmp_path: Path, agent: str) -> None:
    """Reward 1 for ever: 1 / (1 - 0.9) = 10, though every episode is cut after 5 steps.

    Taking the time limit for an end would give 6.9 at most.
    """
    run = train_probe(tmp_path, agent, "make_forever", length=5)
    np.testing.assert_allclose(q_values(run, [[0, 0, 0]]), 10, rtol=0.02)


@pytest.mark.parametrize("agent", AGENTS)
def test_termination_is_not_bootstrapped(tmp_path: Path, agent: str) -> None:
    """Reward 1 in three states, then the end: 1 + 0.9 + 0.81, 1 + 0.9 and 1."""
    run = train_probe(tmp_path, agent, "make_countdown", length=3, terminates=True)
    expected = np.broadcast_to([[2.71], [1.9], [1.0]], (2, 3, 5))
    np.testing.assert_allclose(q_values(run, np.eye(3)), expected, rtol=0.05)


@pytest.mark.parametrize("best", [-0.5, 0.6])
@pytest.mark.parametrize("agent", AGENTS)
def test_best_action_is_learned(tmp_path: Path, agent: str, best: float) -> None:
    """The action 0 earns 0.75 and 0.64; 0.95 is earned within 0.22 of the best action."""
    # Where all observations are alike, FlashSAC's BatchNorm divides by hardly anything.
    spread = 1.0 if agent == "flashsac" else 0.0
    run = train_probe(tmp_path, agent, "make_bandit", best=best, spread=spread)
    assert run.evaluations()[-1]["return_mean"] > 0.95
    action, _ = load_policy(run).predict(np.zeros(3))
    expected = 1 - (action[0] - best) ** 2
    assert expected > 0.95
    if not spread:
        assert run.evaluations()[-1]["return_mean"] == pytest.approx(expected, abs=1e-5)
    values = q_values(run, [[0, 0, 0]])[:, 0]
    expected = np.broadcast_to(1 - (ACTIONS - best) ** 2, values.shape)
    # One hidden layer of weights at norm one bends less.
    normed = agent in ("xqc", "flashsac")
    np.testing.assert_allclose(values, expected, atol=0.2 if normed else 0.1)


@pytest.mark.parametrize("agent", AGENTS)
def test_reward_of_the_next_step_is_credited(tmp_path: Path, agent: str) -> None:
    """The first action earns nothing at once, and 0.9 * (1 - (action - 0.5)^2) in all."""
    run = train_probe(tmp_path, agent, "make_delayed", best=0.5)
    assert run.evaluations()[-1]["return_mean"] > 0.95
    values = q_values(run, [[0, 0, 0]])[:, 0]
    expected = np.broadcast_to(GAMMA * (1 - (ACTIONS - 0.5) ** 2), values.shape)
    np.testing.assert_allclose(values, expected, atol=0.25 if agent == "xqc" else 0.15)
