"""SBX's agents with LFIW, against the library itself."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pendulum
import pytest

sbx = pytest.importorskip("sbx", reason="SBX is not installed; `make test-adapters` brings it.")

from stable_baselines3.common.noise import NormalActionNoise  # noqa: E402

from lfiw import LfiwConfig  # noqa: E402
from lfiw.adapters import sbx as adapted  # noqa: E402
from lfiw.errors import InputError  # noqa: E402
from lfiw.replay.ere import EreConfig  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Training ends after")

SHARP = LfiwConfig(
    fast_size=100,
    warmup_env_steps=0,
    hidden_sizes=(16,),
    temperature=0.5,
    transform="power",
    learning_rate=1e-2,
)


def make(agent: type, **settings: Any) -> Any:
    small = {
        "learning_starts": 150,
        "buffer_size": 400,
        "batch_size": 32,
        "train_freq": 4,
        "gradient_steps": 4,  # drawn at once, weighed in four
        "seed": 0,
        "policy_kwargs": {"net_arch": [16]},
    }
    return agent("MlpPolicy", pendulum.NAME, **{**small, **settings})


def sac_targets(model: Any, batch: dict[str, jax.Array], key: jax.Array) -> jax.Array:
    policy = model.policy
    _, noise_key, _, _ = jax.random.split(key, 4)
    dist = policy.actor_state.apply_fn(policy.actor_state.params, batch["next_observations"])
    actions = dist.sample(seed=noise_key)
    values = policy.qf_state.apply_fn(
        policy.qf_state.target_params, batch["next_observations"], actions
    )
    entropy = model.ent_coef_state.apply_fn({"params": model.ent_coef_state.params})
    values = values.min(axis=0) - entropy * dist.log_prob(actions)[:, None]
    return batch["rewards"][:, None] + 0.9 * (1 - batch["dones"][:, None]) * values


def td3_targets(model: Any, batch: dict[str, jax.Array], key: jax.Array) -> jax.Array:
    policy = model.policy
    _, noise_key, _, _ = jax.random.split(key, 4)
    noise = jax.random.normal(noise_key, batch["actions"].shape) * 0.2
    actions = policy.actor_state.apply_fn(
        policy.actor_state.target_params, batch["next_observations"]
    )
    actions = jnp.clip(actions + jnp.clip(noise, -0.5, 0.5), -1, 1)
    values = policy.qf_state.apply_fn(
        policy.qf_state.target_params, batch["next_observations"], actions
    )
    return batch["rewards"][:, None] + 0.9 * (1 - batch["dones"][:, None]) * values.min(axis=0)


@pytest.mark.parametrize(("name", "targets"), [("SAC", sac_targets), ("TD3", td3_targets)])
def test_critic_step_is_that_of_the_weighted_loss(name: str, targets: Callable[..., Any]) -> None:
    model = make(getattr(adapted, name), lfiw=SHARP)
    draw = np.random.default_rng(0)
    batch = {
        "observations": draw.standard_normal((8, 3), np.float32),
        "actions": draw.uniform(-1, 1, (8, 1)).astype(np.float32),
        "next_observations": draw.standard_normal((8, 3), np.float32),
        "rewards": draw.standard_normal(8, np.float32),
        "dones": np.float32([0, 1, 0, 0, 0, 1, 0, 0]),
    }
    weights = np.float32([0, 3, 0.5, 0.5, 1, 0, 2, 1])[:, None]
    state, key = model.policy.qf_state, jax.random.key(5)
    target = targets(model, batch, key)

    def loss(params: Any) -> jax.Array:
        values = state.apply_fn(params, batch["observations"], batch["actions"])
        return 0.5 * (weights * (target - values) ** 2).mean(axis=1).sum()

    expected = state.apply_gradients(grads=jax.grad(loss)(state.params))
    carried = {**batch, "actions": np.concatenate([batch["actions"], weights], axis=1)}
    arguments = [carried[k] for k in ("observations", "actions", "next_observations", "rewards")]
    arguments += [batch["dones"], np.full(8, 0.9, np.float32)]
    before = [model.ent_coef_state] if name == "SAC" else []
    after = [0.2, 0.5] if name == "TD3" else []
    found, *_ = type(model).update_critic(
        model.policy.actor_state, state, *before, *arguments, *after, key
    )
    for ours, theirs in zip(
        jax.tree.leaves(found.params), jax.tree.leaves(expected.params), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
    assert found.apply_fn == state.apply_fn


def parameters(model: Any) -> list[np.ndarray]:
    states = [model.policy.qf_state, model.policy.actor_state]
    states += [model.ent_coef_state] if hasattr(model, "ent_coef_state") else []
    return [np.asarray(leaf) for state in states for leaf in jax.tree.leaves(state.params)]


@pytest.mark.parametrize("name", ["SAC", "TD3"])
def test_equal_weights_give_the_plain_agent(name: str) -> None:
    """Up to the order in which the compiled programs add. Twenty updates, as differences grow."""
    flat = replace(SHARP, temperature=1e30)
    ours = make(getattr(adapted, name), lfiw=flat).learn(172)
    plain = make(getattr(sbx, name)).learn(172)
    assert ours.lfiw.env_steps == 172 and ours.lfiw.metrics()["max_weight"] == 1
    for one, other in zip(parameters(ours), parameters(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    sharp = make(getattr(adapted, name), lfiw=SHARP).learn(172)
    assert not np.allclose(parameters(sharp)[0], parameters(plain)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({"learning_rate": 1e-3, "qf_learning_rate": 5e-3}, 5e-3),
        ({"learning_rate": lambda left: 1e-2 * left}, None),
        ({"learning_rate": lambda left: 1e-2 * left, "qf_learning_rate": 5e-3}, 5e-3),
    ],
)
def test_the_ratio_learns_at_the_critics_rate(rates: Any, expected: float | None) -> None:
    """A schedule, too, unless the critic has a rate of its own."""
    model = make(adapted.SAC, lfiw=replace(SHARP, learning_rate=None), **rates).learn(172)
    of_critic = model.policy.qf_state.opt_state.hyperparams["learning_rate"]
    assert model.lfiw.learning_rate == pytest.approx(float(of_critic), rel=1e-6)
    if expected is None:
        assert model.lfiw.learning_rate < 5e-3  # as it ends
    else:
        assert model.lfiw.learning_rate == expected


def test_save_load_go_on(tmp_path: Path) -> None:
    model = make(adapted.SAC, lfiw=SHARP).learn(300)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = adapted.SAC.load(tmp_path / "model", env=gym.make(pendulum.NAME))
    loaded.load_replay_buffer(tmp_path / "buffer")
    assert loaded.lfiw.config == SHARP and loaded.lfiw.env_steps == 300
    loaded.set_logger(model.logger)
    for agent in (model, loaded):
        agent.set_random_seed(1)
        agent.train(20, 32)
    for one, other in zip(parameters(model), parameters(loaded), strict=True):
        np.testing.assert_array_equal(one, other)
    loaded.learn(100)
    assert loaded.lfiw.env_steps == 400
    assert loaded.logger.name_to_value["lfiw/max_weight"] > 1


@pytest.mark.parametrize("name", ["SAC", pytest.param("TD3", marks=pytest.mark.faults)])
def test_solves_pendulum(name: str) -> None:
    noise = NormalActionNoise(np.zeros(1), np.full(1, 0.2))
    model = make(
        getattr(adapted, name),
        lfiw=pendulum.LFIW,
        learning_starts=300,
        learning_rate=3e-3,
        gamma=0.95,
        batch_size=64,
        buffer_size=10_000,
        action_noise=noise if name == "TD3" else None,
        policy_kwargs={"net_arch": [64, 64]},
    )
    assert pendulum.is_solved(
        lambda steps: model.learn(steps, reset_num_timesteps=False),
        lambda obs: model.predict(obs, deterministic=True)[0],
    )


@pytest.mark.parametrize("name", ["uniform", "ere", "recency", "inverse-age", "cer"])
def test_strategies_that_draw_by_age(name: str) -> None:
    model = make(adapted.SAC, replay=name).learn(170)
    assert model.lfiw is None and model.draws.strategy.config.name == name
    assert model.draws.updates == (0 if name == "uniform" else model._n_updates)
    assert model._n_updates > 0


def test_each_minibatch_has_a_window_of_its_own() -> None:
    """ERE: 400 slots times 0.99^(1000 k / 4) are 32, 2, ... in a cycle of four updates, and at
    least 5 are left; the four minibatches are drawn at once."""
    config = EreConfig(eta=0.99, eta_end=0.99, min_window=5, cycle_updates=4)
    model = make(adapted.SAC, replay=config).learn(150)
    drawn = model.draws.sample(model.replay_buffer, [500] * 4, None, 4, progress=0.0)
    ages = (model.replay_buffer.pos - 1 - drawn.slots.reshape(4, 500)) % 400
    assert [len(set(part.tolist())) for part in ages] == [32, 5, 5, 5]


def test_strategies_that_need_td_errors_are_refused() -> None:
    with pytest.raises(InputError, match="shows no TD errors, which replay='lap' needs: it may be"):
        make(adapted.SAC, replay="lap")
