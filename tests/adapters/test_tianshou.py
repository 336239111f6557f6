"""Tianshou's agents on LFIW's buffers, against the library itself."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pendulum
import pytest

pytest.importorskip("tianshou", reason="Tianshou is not installed; `make test-adapters` brings it.")

import torch
from tianshou.algorithm import SAC, TD3
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, ReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import (
    ContinuousActorDeterministic,
    ContinuousActorProbabilistic,
    ContinuousCritic,
)

from lfiw import LfiwConfig
from lfiw.adapters import tianshou as adapted
from lfiw.errors import InputError

SHARP = LfiwConfig(
    fast_size=20,
    warmup_env_steps=0,
    hidden_sizes=(16,),
    temperature=0.5,
    transform="power",
    learning_rate=0.05,
)
FLAT = replace(SHARP, temperature=1e30)


def make_agent(kind: type, width: int = 16, rate: float = 1e-3) -> Any:
    torch.manual_seed(0)
    env = gym.make(pendulum.NAME)
    optimiser = AdamOptimizerFactory(lr=rate)

    def body(concat: bool) -> Net:
        shapes = {"state_shape": 3, "action_shape": 1 if concat else 0}
        return Net(**shapes, hidden_sizes=[width, width], concat=concat)

    critic = ContinuousCritic(preprocess_net=body(concat=True))
    shared = {"critic": critic, "critic_optim": optimiser, "policy_optim": optimiser, "gamma": 0.95}
    if kind is SAC:
        actor = ContinuousActorProbabilistic(
            preprocess_net=body(concat=False),
            action_shape=(1,),
            unbounded=True,
            conditioned_sigma=True,
        )
        policy = SACPolicy(actor=actor, action_space=env.action_space)
        return SAC(policy=policy, alpha=AutoAlpha(-1.0, 0.0, optimiser), **shared)
    actor = ContinuousActorDeterministic(preprocess_net=body(concat=False), action_shape=(1,))
    policy = ContinuousDeterministicPolicy(
        actor=actor, action_space=env.action_space, exploration_noise=GaussianNoise(sigma=0.2)
    )
    return TD3(policy=policy, **shared)


def fill(buffer: Any, rows: int, envs: int | None = None, seed: int = 0) -> Any:
    draw = np.random.default_rng(seed)
    for row in range(rows):
        leading = () if envs is None else (envs,)
        buffer.add(
            Batch(
                obs=np.full((*leading, 3), row, np.float32),
                act=draw.uniform(-1, 1, (*leading, 1)).astype(np.float32),
                rew=draw.standard_normal(leading),
                terminated=np.zeros(leading, bool),
                truncated=np.zeros(leading, bool),
                obs_next=draw.standard_normal((*leading, 3)).astype(np.float32),
                info=Batch(),
            )
        )
    return buffer


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_critic_learns_from_the_weighted_squares(kind: type) -> None:
    """The loss that an agent reports is the one that it minimises."""
    agent = make_agent(kind)
    buffer = fill(adapted.LfiwReplayBuffer(100, lfiw=SHARP), 60)
    for _ in range(20):
        buffer.sample(32)
    batch, indices = buffer.sample(32)
    weights = torch.tensor(batch.weight)
    assert weights.shape == (32,) and weights.std() > 0.05
    batch = agent._preprocess_batch(batch, buffer, indices)
    with torch.no_grad():
        td = agent.critic(batch.obs, batch.act).flatten() - batch.returns.flatten()
    _, loss = agent._minimize_critic_squared_loss(batch, agent.critic, agent.critic_optim)
    torch.testing.assert_close(loss.detach(), (weights * td**2).mean())


def make_collector(agent: Any, buffer: Any, envs: int = 1, start: int = 100) -> Collector:
    venv = DummyVectorEnv([lambda: gym.make(pendulum.NAME) for _ in range(envs)])
    venv.seed(0)
    torch.manual_seed(1)
    np.random.seed(1)
    collector = Collector(agent, venv, buffer, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=start, random=True)
    return collector


def train(agent: Any, collector: Collector, steps: int, batch_size: int = 32) -> None:
    agent.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=steps,
            collection_step_num_env_steps=10,
            batch_size=batch_size,
            show_progress=False,
            verbose=False,
        )
    )


@pytest.mark.parametrize("kind", [SAC, TD3])
@pytest.mark.parametrize("envs", [1, 2])
def test_equal_weights_give_the_plain_run_to_the_bit(kind: type, envs: int) -> None:
    results = []
    for lfiw in (FLAT, None, SHARP):
        if lfiw is None:
            buffer = VectorReplayBuffer(400, envs)
        else:
            buffer = adapted.LfiwVectorReplayBuffer(400, envs, lfiw=lfiw)
        agent = make_agent(kind)
        train(agent, make_collector(agent, buffer, envs), 200)
        results.append([value.detach().clone() for value in agent.parameters()])
    flat, plain, sharp = results
    assert all(torch.equal(one, other) for one, other in zip(flat, plain, strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(sharp, plain, strict=True))


@pytest.mark.parametrize("kind", [SAC, TD3])
@pytest.mark.parametrize("replay", ["per", "recency"])
def test_agents_learn_with_other_strategies(kind: type, replay: str) -> None:
    buffer = adapted.StrategyVectorReplayBuffer(400, 2, replay=replay)
    agent = make_agent(kind)
    train(agent, make_collector(agent, buffer, envs=2), 100)
    assert all(torch.isfinite(value).all() for value in agent.parameters())
    assert buffer.draws.updates > 0
    if replay == "per":
        assert buffer.draws.strategy.max_priority > 1


@pytest.mark.parametrize(("envs", "rows", "first"), [(None, 7, 0), (None, 130, 110), (2, 60, 50)])
def test_fast_memory_is_the_newest_slots(envs: int | None, rows: int, first: int) -> None:
    if envs is None:
        buffer: Any = adapted.LfiwReplayBuffer(100, lfiw=SHARP)
    else:
        buffer = adapted.LfiwVectorReplayBuffer(100, envs, lfiw=SHARP)
    fill(buffer, rows, envs)
    filled = min(buffer.num_recent, 20)
    slots = buffer.recent_slots[:filled]
    assert sorted(set(buffer.obs[slots][:, 0])) == list(range(first, rows))
    assert buffer.env_steps == rows * (envs or 1)
    buffer.reset()
    assert buffer.num_recent == 0


def test_dictionary_observations() -> None:
    buffer = adapted.LfiwReplayBuffer(100, lfiw=SHARP)
    for row in range(30):
        obs = Batch(b=np.full(2, row, np.float32), a=np.full((2, 2), -row, np.float32))
        buffer.add(
            Batch(
                obs=obs,
                act=np.zeros(1, np.float32),
                rew=0.0,
                terminated=False,
                truncated=False,
                obs_next=obs,
                info=Batch(),
            )
        )
    batch, _ = buffer.sample(8)
    np.testing.assert_array_equal(adapted.flat(batch.obs)[:, :4], batch.obs.a.reshape(8, 4))
    np.testing.assert_array_equal(adapted.flat(batch.obs)[:, 4:], batch.obs.b)
    assert buffer.lfiw.obs_dim == 6


def test_saved_buffers_go_on_exactly(tmp_path: Path) -> None:
    """Through the library's own ways of saving a buffer."""
    buffer = fill(adapted.LfiwReplayBuffer(100, lfiw=SHARP), 60)
    buffer.sample(16)
    buffer.save_hdf5(str(tmp_path / "buffer.hdf5"))
    copies = [
        pickle.loads(pickle.dumps(buffer)),
        adapted.LfiwReplayBuffer.load_hdf5(str(tmp_path / "buffer.hdf5")),
    ]
    expected = buffer.sample(16)[0].weight
    for copy in copies:
        np.testing.assert_array_equal(copy.sample(16)[0].weight, expected)


def test_bad_use_gets_a_sentence() -> None:
    buffer = fill(adapted.LfiwReplayBuffer(100, lfiw=SHARP), 10)
    for whole in (0, None):
        with pytest.raises(InputError, match="PPO"):
            buffer.sample(whole)
    with pytest.raises(InputError, match="seen no transition"):
        adapted.LfiwReplayBuffer(100, lfiw=SHARP).sample(8)
    with pytest.raises(InputError, match="fast_size 10000 must be below"):
        adapted.LfiwVectorReplayBuffer(5000, 2)
    discrete = adapted.LfiwReplayBuffer(100, lfiw=SHARP)
    source = fill(ReplayBuffer(20), 5)
    source._meta.act = np.zeros((20, 1), int)
    discrete.update(source)
    with pytest.raises(InputError, match="continuous actions"):
        discrete.sample(4)


@pytest.mark.parametrize("kind", [SAC, pytest.param(TD3, marks=pytest.mark.faults)])
def test_solves_pendulum(kind: type) -> None:
    torch.set_num_threads(1)
    agent = make_agent(kind, width=64, rate=3e-3)
    buffer = adapted.LfiwVectorReplayBuffer(10_000, 1, lfiw=pendulum.LFIW)
    collector = make_collector(agent, buffer, start=300)

    def act(obs: np.ndarray) -> np.ndarray:
        agent.eval()
        with torch.no_grad():
            chosen = agent.policy(Batch(obs=obs[None], info=Batch())).act
        return agent.policy.map_action(chosen)[0]

    assert pendulum.is_solved(lambda steps: train(agent, collector, steps, batch_size=64), act)
    assert (buffer.env_steps - 300) % 2000 == 0
    assert buffer.lfiw.metrics()["max_weight"] > 1.01
