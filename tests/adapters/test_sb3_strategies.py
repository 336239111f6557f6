"""Stable-Baselines3's agents with the other strategies: what is drawn and what is learned."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pendulum
import pytest
from scipy.stats import chisquare

sb3 = pytest.importorskip(
    "stable_baselines3",
    reason="Stable-Baselines3 is not installed; `make test-adapters` brings it.",
)
sb3_contrib = pytest.importorskip(
    "sb3_contrib", reason="Stable-Baselines3 is not installed; `make test-adapters` brings it."
)

import stable_baselines3.sac.sac as sac_module  # noqa: E402
import stable_baselines3.td3.td3 as td3_module  # noqa: E402
import torch  # noqa: E402
from stable_baselines3.common.buffers import (  # noqa: E402
    DictReplayBuffer,
    NStepReplayBuffer,
    ReplayBuffer,
)
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.envs import BitFlippingEnv, SimpleMultiObsEnv  # noqa: E402
from stable_baselines3.common.vec_env import VecNormalize  # noqa: E402

from lfiw import LfiwConfig  # noqa: E402
from lfiw.adapters import sb3 as adapted  # noqa: E402
from lfiw.adapters.sb3_agent import WeighedBuffer  # noqa: E402
from lfiw.adapters.sb3_replay import BufferDraws, Drawn, num_slots, samples_at  # noqa: E402
from lfiw.adapters.strategies import STRATEGIES, make_strategy  # noqa: E402
from lfiw.adapters.torch_ratio import with_floor  # noqa: E402
from lfiw.errors import InputError  # noqa: E402
from lfiw.replay.cer import CerConfig  # noqa: E402
from lfiw.replay.ere import EreConfig  # noqa: E402
from lfiw.replay.faded_per import FadedPerConfig  # noqa: E402
from lfiw.replay.inverse_age import InverseAgeConfig  # noqa: E402
from lfiw.replay.lap import LapConfig  # noqa: E402
from lfiw.replay.pal import PalConfig  # noqa: E402
from lfiw.replay.per import PerConfig  # noqa: E402
from lfiw.replay.recency import RecencyConfig  # noqa: E402

PLAIN = {"SAC": sb3.SAC, "TD3": sb3.TD3, "DDPG": sb3.DDPG, "TQC": sb3_contrib.TQC}
DRAWS = 40_000
BOX = gym.spaces.Box(-1e4, 1e4, (1,))
PAIR = gym.spaces.Dict({"one": BOX, "two": BOX})


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def bit_flipping(n_envs: int) -> Any:
    return make_vec_env(lambda: BitFlippingEnv(n_bits=3, continuous=True, max_steps=8), n_envs)


def filled(kind: str, rows: int) -> ReplayBuffer:
    """A buffer of 40 rows (20 where two environments share 40 slots), after `rows` rows. The
    action of a transition is the number of transitions before it."""
    n_envs = 1 if kind in ("plain", "her") else 2
    if kind.startswith("her"):
        env = bit_flipping(n_envs)
        buffer: ReplayBuffer = sb3.HerReplayBuffer(
            40, env.observation_space, env.action_space, env=env, n_envs=n_envs
        )
        obs = env.reset()
    elif kind == "dict":
        buffer = DictReplayBuffer(40, PAIR, BOX, n_envs=n_envs)
        obs = {"one": np.zeros((n_envs, 1)), "two": np.zeros((n_envs, 1))}
    elif kind == "n-step":
        buffer = NStepReplayBuffer(40, BOX, BOX, n_envs=n_envs, n_steps=3)
        obs = np.zeros((n_envs, 1))
    else:
        lean = kind == "memory"
        buffer = ReplayBuffer(
            40,
            BOX,
            BOX,
            n_envs=n_envs,
            optimize_memory_usage=lean,
            handle_timeout_termination=not lean,
        )
        obs = np.zeros((n_envs, 1))
    for row in range(rows):
        number = np.repeat(row * n_envs + np.arange(n_envs)[:, None], buffer.action_dim, axis=1)
        # Episodes of five rows in the first environment, of seven in the second.
        ends = np.array([row % 5 == 4, row % 7 == 6])[:n_envs]
        buffer.add(obs, obs, number, np.zeros(n_envs), ends, [{}] * n_envs)
    return buffer


# Of each kind and number of rows, the transitions that can be drawn.
DRAWABLE = {
    ("plain", 23): range(23),
    ("vector", 53): range(66, 106),  # the ring has come round
    ("dict", 17): range(34),
    ("n-step", 53): range(66, 106),
    ("memory", 53): range(68, 106),  # the oldest row has lost its observation
    ("her", 23): range(20),  # the fifth episode goes on
    # The ring has rows 13 to 32. In the first environment 13 and 14 are the rest of an episode that
    # is overwritten, and that of 30 goes on; in the second 13, and that of 28.
    ("her-vector", 33): [
        *(2 * row for row in range(15, 30)),
        *(2 * row + 1 for row in range(14, 28)),
    ],
}

CONFIGS = [
    RecencyConfig(rate=0.1, floor=0.2),
    InverseAgeConfig(offset=2.0),
    EreConfig(eta=0.9997, min_window=5, cycle_updates=1),
    PerConfig(alpha=0.7),
    LapConfig(alpha=0.8),
    FadedPerConfig(alpha=0.8, floor=0.2, fade_steps=20),
    CerConfig(),
]


def chances(config: Any, count: int, errors: np.ndarray) -> np.ndarray:
    """Of transitions of age 0, 1, ... with these TD errors."""
    ages = np.arange(count)
    if isinstance(config, RecencyConfig):
        unscaled = np.maximum(config.floor, (1 - config.rate) ** ages)
    elif isinstance(config, InverseAgeConfig):
        unscaled = 1 / (ages + config.offset)
    elif isinstance(config, EreConfig):
        unscaled = (ages < int(40 * config.eta**1000)).astype(float)  # 29 of them
    elif isinstance(config, PerConfig):
        unscaled = (errors + config.epsilon) ** config.alpha
    elif isinstance(config, LapConfig | FadedPerConfig):
        unscaled = np.maximum(errors, 1) ** config.alpha
        if isinstance(config, FadedPerConfig):
            unscaled = unscaled * config.floor ** np.minimum(ages / config.fade_steps, 1)
    else:
        unscaled = np.ones(count)
    return unscaled / unscaled.sum()


@pytest.mark.parametrize(("kind", "rows"), DRAWABLE)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_draws_follow_the_formula(config: Any, kind: str, rows: int) -> None:
    buffer = filled(kind, rows)
    draws = BufferDraws(make_strategy(config, num_slots(buffer)), seed=0)
    newest_first = sorted(DRAWABLE[kind, rows], reverse=True)
    errors = np.linspace(0.2, 9, len(newest_first))

    first = draws.sample(buffer, [400], None, 1, 0.0)
    assert set(first.samples.actions[:, 0].tolist()) <= set(newest_first)
    slots = torch.tensor([number % num_slots(buffer) for number in newest_first])
    draws.strategy.feedback(slots, torch.tensor(np.stack([errors, -errors / 2])))

    samples, slots, weights = draws.sample(buffer, [DRAWS], None, 1, 0.0)
    numbers = samples.actions[:, 0].numpy().astype(int)
    np.testing.assert_array_equal(numbers % num_slots(buffer), slots)
    if isinstance(config, CerConfig):
        assert numbers[0] == newest_first[0]
        numbers = numbers[1:]
    expected = chances(config, len(newest_first), errors)
    counts = np.array([np.sum(numbers == number) for number in newest_first])
    assert counts.sum() == len(numbers)
    assert not counts[expected == 0].any()
    possible = expected > 0
    assert chisquare(counts[possible], len(numbers) * expected[possible]).pvalue > 1e-3

    by_hand = np.ones(len(numbers))
    if isinstance(config, PerConfig):  # beta 0.4: (N P)^-0.4, divided by the largest
        of_number = dict(zip(newest_first, len(newest_first) * expected, strict=True))
        by_hand = np.array([of_number[number] ** -0.4 for number in numbers])
        by_hand /= by_hand.max()
    np.testing.assert_allclose(weights[-len(numbers) :], by_hand, rtol=1e-5)


@pytest.mark.parametrize("kind", ["vector", "dict", "n-step", "memory"])
def test_samples_are_those_of_the_buffer(kind: str) -> None:
    """Every field of a slot, against a buffer that has its environment alone."""
    buffer = filled(kind, 33)
    buffer.rewards[:] = np.arange(40).reshape(20, 2)
    slots = np.array([0, 7, 2, 39, 7, 12])
    samples = samples_at(buffer, slots, None)
    assert samples.actions[:, 0].tolist() == [slot + 40 * (slot < 26) for slot in slots]
    if kind == "n-step":
        # Slot 7 is row 3 of the second environment, the 24th of all. Its episode of rows 21 to 27
        # goes on: rewards 7, 9 and 11.
        assert samples.rewards[1].item() == pytest.approx(7 + 0.99 * 9 + 0.99**2 * 11)
        assert samples.discounts[1].item() == pytest.approx(0.99**3)
    else:
        assert samples.rewards[:, 0].tolist() == slots.tolist()


def test_her_relabels_its_share_of_goals() -> None:
    buffer = filled("her", 40)
    buffer.observations["desired_goal"][:] = 7  # as no achieved goal is
    goals = samples_at(buffer, np.arange(20), None).observations["desired_goal"]
    assert (goals == 7).all(dim=1).tolist() == [True] * 4 + [False] * 16  # four of five


def test_new_rows_have_the_largest_priority() -> None:
    buffer = filled("vector", 12)
    draws = BufferDraws(make_strategy(LapConfig(alpha=1.0), 40), seed=0)
    draws.sample(buffer, [5], None, 1, 0.0)
    draws.strategy.feedback(torch.arange(24), torch.full((2, 24), 3.0))
    zeros = np.zeros((2, 1))

    def add(rows: int) -> list[float]:
        for _ in range(rows):
            buffer.add(zeros, zeros, zeros, np.zeros(2), np.zeros(2), [{}] * 2)
        draws.sample(buffer, [5], None, 1, 0.0)
        return draws.strategy.tree.leaves[:40].tolist()

    draws.strategy.feedback(torch.arange(24), torch.full((2, 24), 2.0))
    assert add(1) == [2.0] * 24 + [3.0] * 2 + [0.0] * 14
    assert add(9) == [3.0] * 4 + [2.0] * 20 + [3.0] * 16
    draws.strategy.feedback(torch.arange(40), torch.ones((2, 40)))
    draws.new_rows = 21  # as the agent counts: once round and one row more
    assert add(21) == [3.0] * 40
    buffer.reset()
    assert add(2) == [3.0] * 4 + [0.0] * 36


def test_her_rows_enter_when_their_episode_is_over() -> None:
    """Nine rows of episodes of five: the sixth to the ninth enter with the tenth. A ring of 40 rows
    later, the first five are gone with the first of them."""
    buffer = filled("her", 9)
    draws = BufferDraws(make_strategy(LapConfig(alpha=1.0), 40), seed=0)
    obs = {key: values[0] for key, values in buffer.observations.items()}

    def add(ends: list[bool]) -> list[float]:
        for end in ends:
            buffer.add(obs, obs, np.zeros((1, 3)), np.zeros(1), np.array([end]), [{}])
        draws.sample(buffer, [5], None, 1, 0.0)
        return draws.strategy.tree.leaves[:40].tolist()

    assert add([]) == [1.0] * 5 + [0.0] * 35
    draws.strategy.feedback(torch.arange(5), torch.tensor([[2.0, 3.0, 4.0, 5.0, 6.0]]))
    assert add([True]) == [2.0, 3.0, 4.0, 5.0, 6.0] + [6.0] * 5 + [0.0] * 30
    assert add([False] * 29) == [2.0, 3.0, 4.0, 5.0, 6.0] + [6.0] * 5 + [0.0] * 30
    draws.strategy.feedback(torch.arange(5, 10), torch.full((1, 5), 3.0))
    assert add([True, False]) == [0.0] * 5 + [3.0] * 5 + [6.0] * 30
    # Written anew and over between two looks.
    assert add([False] * 4 + [True]) == [6.0] * 6 + [0.0] * 4 + [6.0] * 30


def small() -> dict[str, Any]:
    return {
        "learning_starts": 60,
        "buffer_size": 80,
        "batch_size": 16,
        "seed": 0,
        "policy_kwargs": {"net_arch": [16]},
    }


@pytest.mark.parametrize("agent", PLAIN)
@pytest.mark.parametrize("replay", STRATEGIES)
def test_every_agent_learns_with_every_strategy(agent: str, replay: str) -> None:
    model = getattr(adapted, agent)("MlpPolicy", pendulum.NAME, replay=replay, **small())
    before = model.critic.state_dict()["qf0.0.weight"].clone()
    model.learn(100)
    after = model.critic.state_dict()["qf0.0.weight"]
    assert torch.isfinite(after).all() and not torch.equal(before, after)
    assert model.lfiw is None and model.draws.strategy.config.name == replay
    if replay in ("per", "lap", "faded-per"):
        leaves = model.draws.strategy.tree.leaves[:80]
        assert (leaves > 0).all() and len(set(leaves.tolist())) > 5
        assert model.logger.name_to_value["replay/mean_priority"] > 0
    if agent != "TQC" and STRATEGIES[replay].needs_errors:
        assert model.logger.name_to_value["replay/critic_loss"] > 0


KINDS: dict[str, dict[str, Any]] = {
    "her": {"replay_buffer_class": sb3.HerReplayBuffer},
    "dict": {},
    "n-step": {"n_steps": 3},
    "memory": {
        "optimize_memory_usage": True,
        "replay_buffer_kwargs": {"handle_timeout_termination": False},
    },
    "normalised": {},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replay", ["lap", "recency"])
def test_every_buffer_and_observation(kind: str, replay: str) -> None:
    goals = kind in ("her", "dict")
    if kind == "her":
        env = bit_flipping(2)
    elif kind == "dict":
        env = SimpleMultiObsEnv(num_row=2, num_col=2, discrete_actions=False)
    else:
        env = make_vec_env(pendulum.NAME, n_envs=2, seed=0)
        env = VecNormalize(env) if kind == "normalised" else env
    policy = "MultiInputPolicy" if goals else "MlpPolicy"
    model = adapted.SAC(policy, env, replay=replay, **{**small(), **KINDS[kind]}).learn(100)
    assert all(torch.isfinite(value).all() for value in model.policy.state_dict().values())
    assert model.draws.updates == model._n_updates > 0


@pytest.mark.parametrize("name", PLAIN)
def test_uniform_is_the_plain_agent_to_the_bit(name: str) -> None:
    agent = getattr(adapted, name)
    ours = agent("MlpPolicy", pendulum.NAME, replay="uniform", **small()).learn(90)
    plain = PLAIN[name]("MlpPolicy", pendulum.NAME, **small()).learn(90)
    for one, other in zip(ours.policy.parameters(), plain.policy.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(("name", "factor"), [("SAC", 0.5), ("TD3", 1.0), ("DDPG", 1.0)])
def test_gradient_by_hand(name: str, factor: float) -> None:
    """Two critics, a batch of two, TD errors (0.5, -3) and (4, 1). The library's gradient is
    2 c e / 2. Huber's is e within 1 and its sign beyond, over 2."""
    errors = torch.tensor([[0.5, -3.0], [4.0, 1.0]])
    gradient = (factor * errors)[..., None]
    slots, weights = torch.tensor([3, 5]), torch.tensor([1.0, 0.5])

    def changed(config: Any) -> tuple[Any, list[list[float]]]:
        model = getattr(adapted, name)("MlpPolicy", pendulum.NAME, replay=config, **small())
        drawn = Drawn(None, slots, weights)
        return model, model._change(drawn, None, gradient)[..., 0].tolist()

    model, found = changed(LapConfig(alpha=0.5))
    assert found == [[0.25, -0.25], [0.5, 0.25]]
    # The larger errors are 4 and 3.
    assert model.draws.strategy.tree.leaves[slots].tolist() == [2, pytest.approx(3**0.5)]
    # sum over critics of mean(w h): 0.125 and 2.5 / 2, then 3.5 and 0.5 / 2, each over 2
    assert model._critic_loss.item() == pytest.approx((0.125 + 1.25 + 3.5 + 0.25) / 2)
    # Larger errors 4 and 3: a mean of 3.5; each critic's own are 1, 3, 4 and 1.
    _, found = changed(PalConfig(alpha=1.0))
    expected = np.array([[0.25 * 1, -0.25 * 3], [0.5 * 4, 0.25 * 1]]) / 3.5
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    model, found = changed(PerConfig(alpha=1.0))
    np.testing.assert_allclose(found, factor * np.array([[0.5, -1.5], [4.0, 0.5]]))
    np.testing.assert_allclose(model.draws.strategy.tree.leaves[slots], [4, 3], rtol=1e-5)


class HuberLosses:
    """In place of the library's squares; `factor` is what it multiplies them by."""

    factor = 1.0

    @classmethod
    def mse_loss(cls, values: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        distance = (values - targets).abs()
        losses = torch.where(distance < 1, distance**2 / 2, distance - 0.5)
        return losses.mean() / cls.factor


class Replayed:
    """A buffer that hands out one batch."""

    def __init__(self, samples: Any) -> None:
        self.samples = samples

    def sample(self, batch_size: int, env: Any = None) -> Any:
        return self.samples


@pytest.mark.parametrize("name", ["SAC", "TD3", "DDPG"])
def test_lap_learns_by_the_huber_loss(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update of the adapted agent, and of the plain one with Huber's loss on its batch."""
    ours = getattr(adapted, name)("MlpPolicy", pendulum.NAME, replay="lap", **small()).learn(60)
    plain = PLAIN[name]("MlpPolicy", pendulum.NAME, **small())
    plain.set_logger(ours.logger)
    taken = []
    monkeypatch.setattr(
        ours, "take", lambda drawn: taken.append(drawn) or type(ours).take(ours, drawn)
    )
    torch.manual_seed(0)
    ours.train(1, 16)
    plain.replay_buffer = Replayed(taken[0].samples)
    monkeypatch.setattr(HuberLosses, "factor", type(ours).loss_factor)
    monkeypatch.setattr(sac_module, "F", HuberLosses)
    monkeypatch.setattr(td3_module, "F", HuberLosses)
    torch.manual_seed(0)
    plain.train(1, 16)
    for own, other in zip(ours.critic.parameters(), plain.critic.parameters(), strict=True):
        torch.testing.assert_close(own, other)
    # TD errors here are far beyond 1, so that squares would have taken another step.
    assert ours.draws.strategy.max_priority > 1.5


@pytest.mark.parametrize("ent_coef", ["auto", 0.1])
def test_errors_of_tqc(ent_coef: Any) -> None:
    """Of a target without noise: reward and terminal states alone."""
    settings = {**small(), "ent_coef": ent_coef, "replay": "lap"}
    model = adapted.TQC("MlpPolicy", pendulum.NAME, **settings).learn(60)
    samples = model.draw(16).samples
    samples = samples._replace(dones=torch.ones_like(samples.dones))
    values = model.critic(samples.observations, samples.actions).transpose(0, 1)
    expected = values.mean(dim=2) - samples.rewards[:, 0]
    torch.testing.assert_close(model.td_errors(samples, values), expected)
    alive = samples._replace(dones=torch.zeros_like(samples.dones))
    assert not torch.allclose(model.td_errors(alive, values), expected)


@pytest.mark.parametrize("replay", ["lap", "per", "cer", "recency", "priority"])
def test_save_load_go_on(replay: str, tmp_path: Path) -> None:
    """A model that was saved and loaded takes the very steps that the first one takes."""
    given: Any = replace(SHARP, use="priority") if replay == "priority" else replay
    model = adapted.SAC("MlpPolicy", pendulum.NAME, replay=given, **small()).learn(90)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = adapted.SAC.load(tmp_path / "model", env=gym.make(pendulum.NAME))
    loaded.load_replay_buffer(tmp_path / "buffer")
    assert loaded.draws.strategy.config == model.draws.strategy.config
    assert (loaded.lfiw is None) == (replay != "priority")
    loaded.set_logger(model.logger)
    for agent in (model, loaded):
        agent.set_random_seed(1)
        agent.train(10, 16)
    for one, other in zip(model.critic.parameters(), loaded.critic.parameters(), strict=True):
        assert torch.equal(one, other)
    # Without its buffer the model starts with an empty one.
    alone = adapted.SAC.load(tmp_path / "model", env=gym.make(pendulum.NAME))
    alone.learn(80)


def test_her_goes_on_after_loading(tmp_path: Path) -> None:
    """Also in the middle of episodes, whose rows are not drawn yet."""
    settings = {**small(), "replay": "lap", "replay_buffer_class": sb3.HerReplayBuffer}
    model = adapted.SAC("MultiInputPolicy", bit_flipping(2), **settings).learn(90)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = adapted.SAC.load(tmp_path / "model", env=bit_flipping(2))
    loaded.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=False)
    slots = [agent.draw(50).slots for agent in (model, loaded)]
    assert torch.equal(*slots)
    assert torch.equal(model.draws.strategy.tree.leaves, loaded.draws.strategy.tree.leaves)


def test_files_of_lfiw(tmp_path: Path) -> None:
    """From before there were other strategies; and such a file taken up by another."""
    model = adapted.SAC("MlpPolicy", pendulum.NAME, lfiw=SHARP, **small()).learn(70)
    model.lfiw_settings = model.__dict__.pop("replay_settings")
    model.save(tmp_path / "old")
    loaded = adapted.SAC.load(tmp_path / "old", env=gym.make(pendulum.NAME))
    assert loaded.lfiw.config == SHARP and loaded.lfiw.env_steps == 70
    other = adapted.SAC.load(tmp_path / "old", env=gym.make(pendulum.NAME), replay="per")
    assert other.lfiw is None and other.draws.strategy.config == PerConfig()
    other.save(tmp_path / "new")
    again = adapted.SAC.load(tmp_path / "new", env=gym.make(pendulum.NAME))
    assert again.lfiw is None and again.draws.strategy.config == PerConfig()


def reloaded(model: Any, path: Path, **given: Any) -> Any:
    """With an empty buffer; by another strategy where one is given."""
    model.save(path / "model")
    return adapted.SAC.load(path / "model", env=gym.make(pendulum.NAME), **given)


@pytest.mark.parametrize(
    ("saved", "asked"),
    [
        ("recency", "lap"),
        ("recency", "cer"),
        ("lap", "per"),
        ("lap", LapConfig(alpha=0.0)),
        ("lap", LfiwConfig(use="priority", fast_size=20)),
    ],
)
def test_another_strategy_takes_up_a_file_without_its_state(
    saved: str, asked: Any, tmp_path: Path
) -> None:
    """Its state is that of one that never drew: no update, no priority, the seed's generator."""
    model = adapted.SAC("MlpPolicy", pendulum.NAME, replay=saved, **small()).learn(90)
    other = reloaded(model, tmp_path, replay=asked)
    new = adapted.SAC("MlpPolicy", pendulum.NAME, replay=asked, **small())
    found, expected = other.draws.state_dict(), new.draws.state_dict()
    assert found["updates"] == 0 and found["settings"] == expected["settings"]
    assert torch.equal(found["generator"], expected["generator"])
    if hasattr(other.draws.strategy, "tree"):
        assert not other.draws.strategy.tree.leaves.any()
        assert other.draws.strategy.max_priority == 1.0
    assert other.learn(80).draws.updates == 20


def test_states_from_before_settings_were_recorded() -> None:
    """They go on in the same strategy; in one whose state has other parts they are left out."""
    lap = BufferDraws(make_strategy(LapConfig(), 40), seed=0)
    lap.sample(filled("plain", 23), [5], None, 1, 0.0)
    old = {k: v for k, v in lap.state_dict().items() if k not in ("settings", "newest")}
    same, other = (BufferDraws(make_strategy(c, 40), 1) for c in (LapConfig(), CerConfig()))
    same.load_state_dict(old)
    other.load_state_dict(old)
    assert (same.updates, same.size, other.updates, other.size) == (1, 23, 0, 0)
    assert same.strategy.tree.leaves[:40].tolist() == [1.0] * 23 + [0.0] * 17


def test_parameters_from_a_file_of_the_plain_agent(tmp_path: Path) -> None:
    plain = sb3.SAC("MlpPolicy", pendulum.NAME, **{**small(), "seed": 7})
    plain.save(tmp_path / "plain")
    model = adapted.SAC("MlpPolicy", pendulum.NAME, replay="lap", **small()).learn(70)
    leaves = model.draws.strategy.tree.leaves.clone()
    model.set_parameters(tmp_path / "plain")
    for one, other in zip(model.policy.parameters(), plain.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(model.draws.strategy.tree.leaves, leaves)
    with (tmp_path / "plain.zip").open("rb") as file:
        model.set_parameters(file, device="cpu")


def test_priorities_do_not_pass_to_another_buffer(tmp_path: Path) -> None:
    """Of 70 rows, with more rows than that in it at the first draw, filled or loaded. All its rows
    then have the largest priority so far."""
    model = adapted.SAC("MlpPolicy", pendulum.NAME, replay="lap", **small()).learn(70)
    largest = model.draws.strategy.max_priority
    assert largest > 1 and len(model.draws.strategy.tree.leaves[:70].unique()) > 5
    settings = {**small(), "seed": 1, "learning_starts": 100}
    stranger = sb3.SAC("MlpPolicy", pendulum.NAME, **settings).learn(75)
    stranger.save_replay_buffer(tmp_path / "buffer")

    loaded = reloaded(model, tmp_path)
    loaded.load_replay_buffer(tmp_path / "buffer")
    loaded.draw(5)
    assert loaded.draws.strategy.tree.leaves[:80].tolist() == [largest] * 75 + [0.0] * 5

    alone = reloaded(model, tmp_path, learning_starts=100, seed=1).learn(75)
    alone.draw(5)
    assert alone.draws.strategy.tree.leaves[:80].tolist() == [largest] * 75 + [0.0] * 5

    own = reloaded(model, tmp_path)
    own.replay_buffer = model.replay_buffer
    own.replay_buffer.rewards[:] = 0  # relabelled, it is the same buffer
    own.draw(5)
    assert torch.equal(own.draws.strategy.tree.leaves, model.draws.strategy.tree.leaves)


@pytest.mark.parametrize("replay", ["lap", "lfiw"])
def test_models_without_a_seed_differ(replay: str) -> None:
    """In what they draw with and in the ratio network; those of one seed do not, 0 included."""

    def states(seed: int | None) -> list[torch.Tensor]:
        settings = {**small(), "seed": seed}
        settings |= {"lfiw": SHARP} if replay == "lfiw" else {"replay": replay}
        model = adapted.SAC("MlpPolicy", pendulum.NAME, **settings)
        parts = [model.draws] if model.lfiw is None else [model.draws, model.lfiw]
        return [part.generator.get_state() for part in parts]

    for one, other in zip(states(None), states(None), strict=True):
        assert not torch.equal(one, other)
    for seed in (0, 3):
        assert all(map(torch.equal, states(seed), states(seed)))


def test_the_clock_of_annealing() -> None:
    """Beta goes from 0.4 to 1 within a call of `learn`."""
    model = adapted.SAC("MlpPolicy", pendulum.NAME, replay="per", **small()).learn(100)
    assert model.logger.name_to_value["replay/beta"] == pytest.approx(1.0)
    model.draws.strategy.trace.clear()
    model.draw(4)
    assert model.draws.strategy.trace["beta"] == pytest.approx(1.0)
    model.learn(50, reset_num_timesteps=False)
    assert model.draws.updates == 40 + 1 + 50


def test_cer_knows_how_many_updates_a_step_has() -> None:
    env = make_vec_env(pendulum.NAME, n_envs=2)
    model = adapted.SAC("MlpPolicy", env, replay="cer", gradient_steps=4, **small()).learn(70)
    cer = model.draws.strategy
    assert (cer.added, cer.updates, cer.turn) == (2, 4, 4)


def test_attach_and_load_take_a_replay(tmp_path: Path) -> None:
    plain = sb3.SAC("MlpPolicy", pendulum.NAME, **small()).learn(70)
    plain.save(tmp_path / "plain")
    loaded = adapted.SAC.load(tmp_path / "plain", env=gym.make(pendulum.NAME), replay="ere")
    assert loaded.draws.strategy.config == EreConfig() and loaded.lfiw is None
    model = adapted.attach(plain, replay=LapConfig(alpha=0.2))
    assert model is plain and type(model) is adapted.SAC
    model.learn(30, reset_num_timesteps=False)
    assert model.draws.strategy.max_priority > 1
    with pytest.raises(InputError, match="has replay='lap' already"):
        adapted.attach(model, "per")
    other = adapted.attach(sb3.TD3("MlpPolicy", pendulum.NAME, **small()), "cer")
    assert other.learn(70).draws.updates == 10


class OwnTqc(sb3_contrib.TQC):
    """As users extend the library's agents."""


def test_agents_of_users() -> None:
    model = adapted.attach(OwnTqc("MlpPolicy", pendulum.NAME, **small()), "per")
    assert isinstance(model.learn(80), OwnTqc)
    assert model.draws.strategy.max_priority > 1


def test_agents_of_users_come_back_by_their_parameters(tmp_path: Path) -> None:
    def make() -> Any:
        return adapted.attach(OwnTqc("MlpPolicy", pendulum.NAME, **small()), replay="per")

    model, again = make().learn(80), make()
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    again.set_parameters(tmp_path / "model")
    again.load_replay_buffer(tmp_path / "buffer")
    assert torch.equal(*(agent.draw(20).slots for agent in (model, again)))
    for one, other in zip(model.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(one, other)


SHARP = LfiwConfig(
    fast_size=20, warmup_env_steps=0, hidden_sizes=(16,), temperature=0.5, transform="power"
)


@pytest.mark.filterwarnings("ignore:Training ends after")
@pytest.mark.parametrize("over", [RecencyConfig(rate=0.1), LapConfig(), PalConfig()])
def test_lfiw_over_another_strategy(over: Any) -> None:
    """Equal weights leave the strategy's own run to the bit; others do not."""

    def parameters(**given: Any) -> list[torch.Tensor]:
        model = adapted.SAC("MlpPolicy", pendulum.NAME, **small(), **given).learn(90)
        return list(model.policy.parameters())

    alone = parameters(replay=over)
    flat = parameters(lfiw=replace(SHARP, over=over, temperature=1e30))
    sharp = parameters(lfiw=replace(SHARP, over=over))
    assert all(torch.equal(one, other) for one, other in zip(alone, flat, strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(alone, sharp, strict=True))


def test_the_ratio_is_against_all_that_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not against what the strategy draws, here the newest few."""
    config = replace(SHARP, over=RecencyConfig(rate=0.9, floor=0.0))
    model = adapted.SAC("MlpPolicy", pendulum.NAME, lfiw=config, **small()).learn(60)
    given: list[torch.Tensor] = []
    weigh = model.lfiw.weigh
    monkeypatch.setattr(model.lfiw, "weigh", lambda *args: given.extend(args) or weigh(*args))
    model.train(1, 64)
    slow, _, slow_size, drawn = given
    assert slow_size == 60
    assert len(slow.unique(dim=0)) > 30 and len(drawn.unique(dim=0)) < 10


def test_ratio_as_a_priority() -> None:
    """Drawn by the ratios of what was drawn before, and not weighted."""
    config = replace(SHARP, use="priority", warmup_env_steps=70, temperature=0.01)
    model = adapted.SAC("MlpPolicy", pendulum.NAME, replay=config, **small()).learn(69)
    strategy = model.draws.strategy
    assert strategy.tree.leaves[:69].tolist() == [1.0] * 69  # before the warm-up
    taken = []
    take, model.take = model.take, lambda drawn: taken.append(drawn) or take(drawn)
    network = model.lfiw.ratio
    model.learn(1, reset_num_timesteps=False)
    (drawn,) = taken
    assert drawn.weights.tolist() == [1.0] * 16
    leaves = strategy.tree.leaves
    others = np.setdiff1d(np.arange(70), drawn.slots)
    assert (leaves[others] == 1).all() and len(set(leaves[drawn.slots].tolist())) > 8
    # The network took a small step since.
    ratios = torch.exp(network.logits(model.ratio_inputs(drawn.samples)) / 0.01)
    assert torch.corrcoef(torch.stack([leaves[drawn.slots].log(), ratios.log()]))[0, 1] > 0.8
    model.learn(30, reset_num_timesteps=False)
    assert model.logger.name_to_value["replay/effective_sample_size"] >= 0.59
    assert "lfiw/classifier_loss" in model.logger.name_to_value
    with pytest.raises(InputError, match="draws by itself"):
        wrapped = replace(config, over=PerConfig())
        adapted.SAC("MlpPolicy", pendulum.NAME, replay=wrapped, **small())


def test_lfiw_over_per_has_the_product_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(SHARP, over=PerConfig())
    model = adapted.SAC("MlpPolicy", pendulum.NAME, lfiw=config, **small()).learn(60)
    model.draws.sample(model.replay_buffer, [4], None, 1, 0.0)
    model.draws.strategy.feedback(torch.arange(60), torch.linspace(0, 9, 60)[None])
    taken = []
    monkeypatch.setattr(model, "take", lambda drawn: taken.append(drawn) or drawn.samples)
    inputs = WeighedBuffer(model, 16, 1)
    before = [value.clone() for value in model.lfiw.ratio.network.parameters()]
    inputs.sample(16)
    (drawn,) = taken
    after = [value.clone() for value in model.lfiw.ratio.network.parameters()]
    with torch.no_grad():
        for value, old in zip(model.lfiw.ratio.network.parameters(), before, strict=True):
            value.copy_(old)
        ratios = torch.exp(model.lfiw.ratio.logits(model.ratio_inputs(drawn.samples)) / 0.5)
    leaves = model.draws.strategy.tree.leaves
    per = leaves.sum() / (60 * leaves[drawn.slots])  # beta is 1 at the end of `learn`
    product = with_floor((ratios / ratios.mean()), config.min_effective_sample_size)[0] * per
    torch.testing.assert_close(drawn.weights, (product / product.mean()).float())
    assert not torch.equal(before[0], after[0])  # the network took its step


def test_bad_use_gets_a_sentence() -> None:
    def make(**settings: Any) -> Any:
        return adapted.SAC("MlpPolicy", pendulum.NAME, **small(), **settings)

    with pytest.raises(InputError, match="Unknown replay 'lapp'; it may be uniform, per, "):
        make(replay="lapp")
    with pytest.raises(InputError, match=r"lfiw=\.\.\. are the settings of replay='lfiw'"):
        make(replay="lap", lfiw=LfiwConfig())
    with pytest.raises(InputError, match="alpha must be at most 1"):
        make(replay=LapConfig(alpha=3))
    with pytest.raises(InputError, match="not both"):
        plain = sb3.SAC("MlpPolicy", pendulum.NAME, **small())
        adapted.attach(plain, LapConfig(), replay="per")
    model = make(replay="lfiw", lfiw=LfiwConfig(fast_size=20))
    assert model.lfiw.config.fast_size == 20
    assert make(replay=LfiwConfig(fast_size=20)).lfiw.config == model.lfiw.config
