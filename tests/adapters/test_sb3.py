"""Stable-Baselines3's agents with LFIW, against the library itself."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pendulum
import pytest

sb3 = pytest.importorskip(
    "stable_baselines3",
    reason="Stable-Baselines3 is not installed; `make test-adapters` brings it.",
)
pytest.importorskip(
    "sb3_contrib", reason="Stable-Baselines3 is not installed; `make test-adapters` brings it."
)

import sb3_contrib  # noqa: E402
import sb3_contrib.tqc.tqc as tqc_module  # noqa: E402
import stable_baselines3.sac.sac as sac_module  # noqa: E402
import stable_baselines3.td3.td3 as td3_module  # noqa: E402
import torch  # noqa: E402
from stable_baselines3.common.buffers import ReplayBuffer  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.envs import BitFlippingEnv, SimpleMultiObsEnv  # noqa: E402
from stable_baselines3.common.noise import NormalActionNoise  # noqa: E402
from stable_baselines3.common.vec_env import VecNormalize  # noqa: E402

from lfiw import LfiwConfig  # noqa: E402
from lfiw.adapters import sb3 as adapted  # noqa: E402
from lfiw.adapters.sb3_replay import draw_recent  # noqa: E402
from lfiw.errors import InputError, RunError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Training ends after")

PLAIN = {"SAC": sb3.SAC, "TD3": sb3.TD3, "DDPG": sb3.DDPG, "TQC": sb3_contrib.TQC}
SHARP = LfiwConfig(  # weights that differ much
    fast_size=100,
    warmup_env_steps=0,
    hidden_sizes=(16,),
    temperature=0.5,
    transform="power",
    learning_rate=1e-2,
)
FLAT = replace(SHARP, temperature=1e30)


def small() -> dict[str, Any]:
    """Anew each time, as agents write into their `policy_kwargs`."""
    return {
        "learning_starts": 150,
        "buffer_size": 400,
        "batch_size": 32,
        "seed": 0,
        "policy_kwargs": {"net_arch": [16]},
    }


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def parameters(model: Any) -> dict[str, torch.Tensor]:
    """Of all networks, the entropy coefficient included; without the ratio network."""
    found = {name: value.detach() for name, value in model.policy.state_dict().items()}
    if getattr(model, "log_ent_coef", None) is not None:
        found["log_ent_coef"] = model.log_ent_coef.detach()
    return found


def assert_equal(one: Any, other: Any, tolerance: float = 0.0) -> None:
    for name, value in parameters(one).items():
        torch.testing.assert_close(
            value, parameters(other)[name], rtol=tolerance, atol=tolerance, msg=name
        )


class WeightedLosses:
    """The library's losses with an explicit weight for every sample."""

    weights = torch.ones(1)

    @classmethod
    def mse_loss(cls, values: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (cls.weights[:, None] * (values - targets) ** 2).mean()

    @classmethod
    def quantile_huber_loss(
        cls, values: torch.Tensor, targets: torch.Tensor, sum_over_quantiles: bool
    ) -> torch.Tensor:
        assert not sum_over_quantiles
        count = values.shape[-1]
        levels = ((torch.arange(count) + 0.5) / count).view(1, 1, -1, 1)
        delta = targets.unsqueeze(-2) - values.unsqueeze(-1)
        huber = torch.where(delta.abs() > 1, delta.abs() - 0.5, delta**2 / 2)
        loss = (levels - (delta.detach() < 0).float()).abs() * huber
        return (cls.weights * loss.mean(dim=(1, 2, 3))).mean()


def test_the_ratio_follows_the_critics_schedule() -> None:
    free = replace(SHARP, learning_rate=None)
    model = adapted.SAC(
        "MlpPolicy", pendulum.NAME, lfiw=free, learning_rate=lambda left: 0.1 * left, **small()
    )
    model.learn(200)
    of_critic = model.critic.optimizer.param_groups[0]["lr"]
    assert model.lfiw.learning_rate == of_critic < 0.05
    fixed = adapted.SAC("MlpPolicy", pendulum.NAME, lfiw=SHARP, **small()).learn(200)
    assert fixed.lfiw.learning_rate == SHARP.learning_rate


@pytest.mark.parametrize("name", PLAIN)
def test_critic_gradient_is_that_of_the_weighted_loss(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty updates of the adapted agent, and of the plain one with weighted losses. The actor,
    its targets and the entropy coefficient of the second are the library's own."""
    config = replace(SHARP, fast_size=20, learning_rate=0.05)
    ours = getattr(adapted, name)("MlpPolicy", pendulum.NAME, lfiw=config, **small())
    ours.learn(150)  # collects alone
    plain = PLAIN[name]("MlpPolicy", pendulum.NAME, **small())
    plain.set_logger(ours.logger)
    plain.replay_buffer = ours.replay_buffer
    monkeypatch.setattr(sac_module, "F", WeightedLosses)
    monkeypatch.setattr(td3_module, "F", WeightedLosses)
    monkeypatch.setattr(tqc_module, "quantile_huber_loss", WeightedLosses.quantile_huber_loss)
    spread = []
    for seed in range(20):
        losses = []
        for model in (ours, plain):
            model.set_random_seed(seed)
            WeightedLosses.weights = (
                torch.ones(32) if model is ours else ours.lfiw.trace.weighing.weights
            )
            model.train(gradient_steps=1, batch_size=32)
            losses.append(model.logger.name_to_value["train/critic_loss"])
        spread.append(ours.lfiw.metrics()["effective_sample_size"])
        if name != "TQC":  # what the agent logs is without weights
            found = ours.logger.name_to_value["lfiw/critic_loss"]
            assert found == pytest.approx(losses[1], rel=1e-4)
        assert losses[0] != losses[1]
    assert min(spread) < 0.9
    assert_equal(ours, plain, tolerance=1e-6 if name == "TQC" else 0.0)


def make_env(kind: str) -> Any:
    if kind == "dict":
        np.random.seed(0)  # it draws its observations when it is made
        return SimpleMultiObsEnv(random_start=True, discrete_actions=False, channel_last=False)
    if kind == "her":
        return BitFlippingEnv(n_bits=3, continuous=True, max_steps=8)
    if kind == "normalised":
        return VecNormalize(make_vec_env(pendulum.NAME, n_envs=2, seed=0))
    return make_vec_env(pendulum.NAME, n_envs=2 if kind == "vector" else 1, seed=0)


KINDS: dict[str, dict[str, Any]] = {
    "vector": {},
    "normalised": {},
    "memory": {
        "optimize_memory_usage": True,
        "replay_buffer_kwargs": {"handle_timeout_termination": False},
    },
    "n-step": {"n_steps": 3},
    "dict": {},
    "her": {"replay_buffer_class": sb3.HerReplayBuffer},
}


def make(kind: str, agent: type, **settings: Any) -> Any:
    policy = "MultiInputPolicy" if kind in ("dict", "her") else "MlpPolicy"
    return agent(policy, make_env(kind), **{**small(), **KINDS[kind], **settings})


@pytest.mark.parametrize("name", PLAIN)
def test_equal_weights_give_the_plain_agent_to_the_bit(name: str) -> None:
    ours = getattr(adapted, name)("MlpPolicy", pendulum.NAME, lfiw=FLAT, **small()).learn(500)
    plain = PLAIN[name]("MlpPolicy", pendulum.NAME, **small()).learn(500)
    assert ours.lfiw.metrics()["classifier_loss"] < 0  # it did learn
    assert_equal(ours, plain)


@pytest.mark.parametrize("kind", KINDS)
def test_every_buffer_and_observation(kind: str) -> None:
    """Equal weights leave the run as it was to the bit; others do not."""
    steps = 180 if kind == "dict" else 600  # its images take long
    flat = make(kind, adapted.SAC, lfiw=FLAT).learn(steps)
    plain = make(kind, sb3.SAC).learn(steps)
    assert_equal(flat, plain)
    sharp = make(kind, adapted.SAC, lfiw=SHARP).learn(steps)
    assert sharp.lfiw.metrics()["max_weight"] > 1.01
    assert sharp.lfiw.env_steps == sharp.num_timesteps
    with pytest.raises(AssertionError):
        assert_equal(sharp, plain)


def test_time_limits_do_not_end_the_return() -> None:
    model = adapted.SAC("MlpPolicy", pendulum.NAME, lfiw=SHARP, **small()).learn(410)
    buffer = model.replay_buffer
    assert buffer.dones.sum() == 2 and buffer.sample(300).dones.sum() == 0


def filled_buffer(rows: int, size: int = 50, n_envs: int = 1) -> ReplayBuffer:
    box = gym.spaces.Box(-1e3, 1e3, (1,))
    buffer = ReplayBuffer(size, box, box, n_envs=n_envs)
    for row in range(rows):
        value = np.full((n_envs, 1), row, np.float32)
        zeros = np.zeros(n_envs)
        buffer.add(value, value, value, zeros, zeros, [{}] * n_envs)
    return buffer


@pytest.mark.parametrize(
    ("rows", "n_envs", "expected"),
    [
        (7, 1, range(7)),  # fewer than the fast memory holds
        (30, 1, range(20, 30)),
        (53, 1, range(43, 53)),  # the ring has come round
        (30, 2, range(25, 30)),  # five rows of two environments
    ],
)
def test_fast_memory_is_the_newest_part_of_the_ring(
    rows: int, n_envs: int, expected: range
) -> None:
    size = 50 * n_envs  # the buffer divides by the number of environments
    samples = draw_recent(filled_buffer(rows, size, n_envs), 500, fast_size=10, env=None)
    assert sorted(set(samples.observations.flatten().tolist())) == list(expected)


def test_fast_memory_is_normalised_like_the_batch() -> None:
    env = make_env("normalised")
    model = adapted.SAC("MlpPolicy", env, lfiw=SHARP, **small()).learn(150)
    buffer = model.replay_buffer
    recent = draw_recent(buffer, 500, 10, env)
    raw = buffer.observations[buffer.pos - 5 : buffer.pos].reshape(-1, 3)
    expected = {tuple(row) for row in env.normalize_obs(raw).astype(np.float32)}
    assert {tuple(row) for row in recent.observations.numpy()} == expected


def test_fast_memory_has_relabelled_goals_of_the_newest_episodes() -> None:
    """A batch of HER has other goals than the stored ones, which alone would tell it apart."""
    model = make("her", adapted.SAC, lfiw=SHARP).learn(150)
    buffer = model.replay_buffer
    lengths = buffer.ep_length.copy()
    recent = draw_recent(buffer, 1000, 10, None)
    assert np.array_equal(buffer.ep_length, lengths)
    first = buffer.pos - 10
    stored = {tuple(row) for row in buffer.observations["observation"][first : buffer.pos, 0]}
    assert {tuple(row) for row in recent.observations["observation"].numpy()} <= stored
    goals = {tuple(row) for row in recent.observations["desired_goal"].numpy()}
    assert len(goals) > 1  # the environment itself has one
    # No episode of the window is over: it reaches back to one that is.
    buffer.ep_length[-40:] = buffer.ep_length[first:] = 0
    assert len(draw_recent(buffer, 10, 10, None).actions) == 10


class Count(BaseCallback):
    def _on_step(self) -> bool:
        return True


def test_save_load_go_on(tmp_path: Path) -> None:
    """A model that was saved and loaded takes the very steps that the first one takes."""
    model = adapted.SAC("MlpPolicy", pendulum.NAME, lfiw=SHARP, **small())
    model.learn(300, callback=Count())
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = adapted.SAC.load(tmp_path / "model", env=gym.make(pendulum.NAME))
    loaded.load_replay_buffer(tmp_path / "buffer")
    assert loaded.lfiw.config == SHARP and loaded.lfiw.env_steps == 300
    loaded.set_logger(model.logger)
    for agent in (model, loaded):
        agent.set_random_seed(1)
        agent.train(20, 32)
    assert_equal(model, loaded)
    assert torch.equal(*(agent.lfiw.trace.weighing.weights for agent in (model, loaded)))
    loaded.learn(100)
    assert loaded.lfiw.env_steps == 400  # though the library counts from zero again


def test_plain_model_is_loaded_or_attached(tmp_path: Path) -> None:
    settings = {**small(), "buffer_size": 20_000}  # takes the default configuration too
    plain = sb3.TD3("MlpPolicy", pendulum.NAME, **settings).learn(200)
    plain.save(tmp_path / "plain")
    loaded = adapted.TD3.load(tmp_path / "plain", env=gym.make(pendulum.NAME))
    assert_equal(loaded, plain)
    assert loaded.lfiw.env_steps == 200
    model = adapted.attach(plain, SHARP)
    assert model is plain and type(model) is adapted.TD3
    assert model.lfiw.env_steps == 200
    model.learn(100, reset_num_timesteps=False)
    assert model.lfiw.env_steps == 300
    assert model.lfiw.metrics()["max_weight"] > 1.01
    model.save(tmp_path / "attached")
    again = adapted.TD3.load(tmp_path / "attached", env=gym.make(pendulum.NAME))
    assert again.lfiw.config == SHARP


class OwnSac(sb3.SAC):
    """As users extend the library's agents."""


class CriticOnCopies(sb3.SAC):
    """An agent whose critic never sees the sampled actions themselves."""

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        samples = self.replay_buffer.sample(batch_size)
        self.critic(samples.observations, samples.actions.clone())


def test_agents_of_users() -> None:
    model = adapted.attach(OwnSac("MlpPolicy", pendulum.NAME, **small()), SHARP)
    assert isinstance(model, OwnSac)
    model.learn(200)
    assert model.lfiw.metrics()["max_weight"] > 1


def test_weights_are_never_lost_in_silence() -> None:
    model = adapted.attach(CriticOnCopies("MlpPolicy", pendulum.NAME, **small()), SHARP)
    with pytest.raises(RunError, match="weights would be lost"):
        model.learn(200)


def test_bad_use_gets_a_sentence() -> None:
    with pytest.raises(InputError, match="PPO has no critic"):
        adapted.attach(sb3.PPO("MlpPolicy", pendulum.NAME))
    with pytest.raises(InputError, match="DQN has discrete actions"):
        adapted.attach(sb3.DQN("MlpPolicy", "CartPole-v1", buffer_size=10))
    with pytest.raises(InputError, match="fast_size 10000 must be below"):
        adapted.SAC("MlpPolicy", pendulum.NAME, **small())
    model = adapted.SAC("MlpPolicy", pendulum.NAME, lfiw=SHARP, **small())
    with pytest.raises(InputError, match="already"):
        adapted.attach(model)
    untouched = sb3.SAC("MlpPolicy", pendulum.NAME, **small())
    with pytest.raises(InputError, match="temperature"):
        adapted.attach(untouched, replace(SHARP, temperature=-1.0))
    assert type(untouched) is sb3.SAC


def test_run_shorter_than_its_warmup_is_announced() -> None:
    config = replace(SHARP, warmup_env_steps=300)
    model = adapted.SAC("MlpPolicy", pendulum.NAME, lfiw=config, **small())
    with pytest.warns(UserWarning, match="after 200 environment steps, before LFIW's warm-up"):
        model.learn(200)
    assert model.lfiw.metrics()["max_weight"] == 1
    model.learn(200)
    assert model.lfiw.metrics()["max_weight"] > 1


@pytest.mark.parametrize("name", ["SAC", pytest.param("TD3", marks=pytest.mark.faults)])
def test_solves_pendulum(name: str) -> None:
    noise = NormalActionNoise(np.zeros(1), np.full(1, 0.2))
    model = getattr(adapted, name)(
        "MlpPolicy",
        pendulum.NAME,
        lfiw=pendulum.LFIW,
        learning_starts=300,
        learning_rate=3e-3,
        gamma=0.95,
        batch_size=64,
        buffer_size=10_000,
        action_noise=noise if name == "TD3" else None,
        seed=1,
        policy_kwargs={"net_arch": [64, 64]},
    )
    assert pendulum.is_solved(
        lambda steps: model.learn(steps, reset_num_timesteps=False),
        lambda obs: model.predict(obs, deterministic=True)[0],
    )
