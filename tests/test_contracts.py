"""What every agent and every replay strategy keeps to, found through the registries."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from programs import (
    BATCH,
    MIDWAY,
    SPEC,
    Program,
    active,
    as_arrays,
    draw_sample,
    make_context,
    program,
    quick_jit,
    random_rows,
    same_bits,
    train_config,
    update_agent,
)

from lfiw.acting.networks import TWINS, numpy_network
from lfiw.acting.policy import NumpyPolicy
from lfiw.agents import AGENTS, make_agent
from lfiw.agents.flashsac import FlashSacConfig, bounded
from lfiw.agents.sac import SacConfig, clipped, sample_action
from lfiw.agents.td3 import Td3Config
from lfiw.agents.xqc import XqcConfig
from lfiw.learning.config import PRESETS, config_from_json, make_config
from lfiw.learning.group import over_runs
from lfiw.learning.learner import make_learner
from lfiw.learning.scalars import program_key, traced_settings
from lfiw.networks import NETWORKS, mlp, twins
from lfiw.networks.normed import folded
from lfiw.networks.residual import normed_residual
from lfiw.replay import REPLAYS, make_replay
from lfiw.replay.base import Replay
from lfiw.replay.ere import EreConfig
from lfiw.replay.lfiw import LfiwConfig
from lfiw.replay.per import PerConfig
from lfiw.replay.uniform import UniformConfig
from lfiw.settings import override, to_json
from lfiw.types import Sample, unpack_rows

KEY = jax.random.key(0)
CAPACITY = 64


def label(value: Any) -> str:
    return getattr(value, "name", str(value))


def signature(tree: Any) -> Any:
    """Structure, shapes and types: what a scan demands of its carry."""
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), tree)


def unit_batch() -> Sample:
    ones = jnp.ones(BATCH)
    batch = unpack_rows(jnp.asarray(random_rows(0, BATCH)), SPEC)
    return Sample(batch, jnp.arange(BATCH), ones, ones)


class AgentCase:
    """An agent with its functions compiled."""

    def __init__(self, kind: type[Any]) -> None:
        self.config = kind(hidden_sizes=(8, 8))
        self.agent = agent = make_agent(self.config, SPEC, BATCH)
        self.init = quick_jit(agent.init)
        self.update = quick_jit(
            lambda state, key: update_agent(agent, state, unit_batch(), key, agent.period - 1)
        )


@pytest.fixture(scope="module", params=AGENTS.values(), ids=label)
def case(request: pytest.FixtureRequest) -> AgentCase:
    return AgentCase(request.param)


def test_agents_state_is_a_scan_carry(case: AgentCase) -> None:
    agent = case.agent
    state = jax.eval_shape(agent.init, KEY)
    for turn in range(agent.period):
        update = partial(agent.update, clock=MIDWAY, turn=turn)
        noise = jax.eval_shape(agent.draw, KEY)
        new_state, td_errors, trace = jax.eval_shape(update, state, unit_batch(), noise)
        assert signature(new_state) == signature(state)
        assert (td_errors.shape, td_errors.dtype) == ((2, BATCH), jnp.float32)
        assert {leaf.dtype for leaf in jax.tree.leaves(trace)} == {np.dtype(np.float32)}
        metrics = jax.eval_shape(agent.metrics, trace)
        assert metrics and all(metric.shape == () for metric in metrics.values())


SWITCHES: dict[type[Any], tuple[str, ...]] = {
    XqcConfig: ("categorical", "scale_rewards", "batch_norm", "unit_norm"),
    FlashSacConfig: ("categorical", "scale_rewards"),
}


def test_what_a_batch_of_runs_hands_out_has_their_axis_first(case: AgentCase) -> None:
    """As GPUs have them; each run's policy and snapshot are those parts of all arrays, also of what
    is the same for all runs, and with any ingredient switched off."""
    for off in (None, *SWITCHES.get(type(case.config), ())):
        own = case.config if off is None else replace(case.config, **{off: False})
        config = make_config("Pendulum-v1", own, "lfiw", env_steps=1000)
        learner = make_learner(config, SPEC)
        scalars = {name: jnp.asarray(value) for name, value in traced_settings(config).items()}
        of_three = {name: jnp.stack([value] * 3) for name, value in scalars.items()}
        one = jax.eval_shape(learner.init, scalars, jnp.uint32(0))
        batched = over_runs(learner)
        three = jax.eval_shape(batched.init, of_three, jnp.arange(3, dtype=jnp.uint32))
        for name in ("policy", "snapshot"):
            alone = jax.eval_shape(getattr(learner, name), one, scalars)
            together = jax.eval_shape(getattr(batched, name), three, of_three)
            expected = {key: (3, *array.shape) for key, array in alone.items()}
            assert {key: array.shape for key, array in together.items()} == expected, off


def test_agents_start_without_lapack(case: AgentCase) -> None:
    """Its batched functions wait for threads of the pool that they run on: on two cores networks
    that began with several QR factorisations side by side could wait for ever."""
    keys = jax.random.split(KEY, 2)
    program = jax.jit(jax.vmap(case.agent.init)).lower(keys).as_text()
    assert "lapack" not in program


def test_agents_differ_by_key(case: AgentCase) -> None:
    one, other = (case.agent.policy(case.init(jax.random.key(seed))) for seed in (1, 2))
    assert same_bits(one, case.agent.policy(case.init(jax.random.key(1))))
    for name in filter(lambda name: name.endswith("weight"), one):
        assert np.all(np.asarray(one[name]) != np.asarray(other[name]))


def test_agents_update_is_a_function_of_its_noise(case: AgentCase) -> None:
    state = case.init(KEY)
    first = case.update(state, jax.random.key(1))
    assert same_bits(first, case.update(state, jax.random.key(1)))
    assert not same_bits(first[1], case.update(state, jax.random.key(2))[1])


def actor_outputs(actor: Any, obs: np.ndarray) -> Array:
    return mlp((SPEC.obs_size, 8, 8, SPEC.action_size)).apply(actor, jnp.asarray(obs))


def gaussian_policy(config: SacConfig, state: Any, obs: np.ndarray, noise: Array | None) -> Array:
    return gaussian(actor_outputs(state.actor, obs), noise)


def folded_policy(config: XqcConfig, state: Any, obs: np.ndarray, noise: Array | None) -> Array:
    return gaussian(actor_outputs(folded(state.actor, state.actor_statistics), obs), noise)


def residual_policy(
    config: FlashSacConfig, state: Any, obs: np.ndarray, noise: Array | None
) -> Array:
    network = normed_residual((SPEC.obs_size, 8, 8, 2 * SPEC.action_size))
    actor = network.folded(state.actor, state.actor_statistics)
    return gaussian(network.plain.apply(actor, jnp.asarray(obs)), noise, bounded)


def gaussian(
    outputs: Array, noise: Array | None, log_std_of: Callable[[Array], Array] = clipped
) -> Array:
    if noise is None:
        return jnp.tanh(jnp.split(outputs, 2, axis=-1)[0])
    return sample_action(outputs, noise, log_std_of)[0]


def noisy_policy(config: Td3Config, state: Any, obs: np.ndarray, noise: Array | None) -> Array:
    noise = jnp.zeros(()) if noise is None else noise
    action = jnp.tanh(actor_outputs(state.actor, obs))
    return jnp.clip(action + config.exploration_noise * noise, -1, 1)


# The action for given noise (None: deterministic); a new agent adds its own line.
JAX_POLICIES: dict[type[Any], Callable[[Any, Any, Any, Any], Array]] = {
    SacConfig: gaussian_policy,
    Td3Config: noisy_policy,
    XqcConfig: folded_policy,
    FlashSacConfig: residual_policy,
}


def test_numpy_policy_equals_the_jax_policy(case: AgentCase) -> None:
    # Larger weights than the initial ones, so that actions reach their bounds; those of norm one
    # are large enough.
    state = case.init(KEY)
    factor = 1 if getattr(case.config, "unit_norm", False) else 4
    state = state._replace(actor=jax.tree.map(lambda leaf: factor * leaf, state.actor))
    policy = NumpyPolicy(jax.device_get(case.agent.policy(state)))
    assert (policy.obs_size, policy.action_size) == (SPEC.obs_size, SPEC.action_size)
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((200, SPEC.obs_size), np.float32)
    noise = rng.standard_normal((200, SPEC.action_size), np.float32)
    deterministic, exploring = policy.act(obs), policy.act(obs, 3 * noise)
    in_jax = partial(JAX_POLICIES[type(case.config)], case.config, state, obs)
    np.testing.assert_allclose(deterministic, in_jax(None), atol=1e-5)
    np.testing.assert_allclose(policy.act(obs, noise), in_jax(noise), atol=1e-5)
    # Noise enlarges what float32 rounds; how it does so depends on jax's version.
    np.testing.assert_allclose(exploring, in_jax(3 * noise), atol=3e-5)
    assert np.max(np.abs(exploring - deterministic)) > 0.1
    assert np.max(np.abs(exploring)) <= 1
    np.testing.assert_allclose(policy.act(obs[0]), deterministic[0], atol=1e-6)


def test_every_kind_of_network_has_a_twin() -> None:
    assert NETWORKS.keys() <= TWINS.keys()


@pytest.mark.parametrize("stacked", [False, True], ids=["one", "twins"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_numpy_network_equals_the_jax_network(kind: str, stacked: bool) -> None:
    network = NETWORKS[kind]((5, 16, 16, 3))
    network = twins(network) if stacked else network
    parameters = quick_jit(network.init)(KEY)
    arrays = jax.device_get(network.arrays(parameters, "it"))
    assert all(name.startswith("it.") for name in arrays)
    assert (kind == "mlp") != any(name.startswith(f"it.{kind}.") for name in arrays)
    assert sum(array.size for array in arrays.values()) == sum(
        leaf.size for leaf in jax.tree.leaves(parameters)
    )
    other = {"itself.0.weight": np.zeros((2, 2)), "bound": np.zeros(2)}
    twin = numpy_network(arrays | other, "it")
    assert (twin.input_size, twin.output_size) == (5, 3)
    inputs = 10 * np.random.default_rng(0).standard_normal((50, 5), np.float32)
    kept = inputs.copy()
    outputs = twin(inputs)
    assert outputs.shape == ((2, 50, 3) if stacked else (50, 3))
    np.testing.assert_allclose(outputs, network.apply(parameters, inputs), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(inputs, kept)
    if not stacked:
        np.testing.assert_allclose(twin(inputs[0]), outputs[0], rtol=1e-4, atol=1e-5)


class Strategy:
    """A strategy with its sample compiled."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.replay: Replay = make_replay(config, make_context(capacity=CAPACITY))
        self.sample = quick_jit(lambda state, key: draw_sample(self.replay, state, key, MIDWAY))
        self.add = quick_jit(self.replay.add)

    def filled(self, count: int) -> Any:
        state = quick_jit(self.replay.init)(KEY)
        for start in range(0, count, 10):
            state = self.add(state, random_rows(0, count)[start : start + 10])
        return state


@cache
def strategy(config: Any) -> Strategy:
    return Strategy(config)


STRATEGIES = [active(kind) for kind in REPLAYS.values()] + [
    active(LfiwConfig, over=UniformConfig()),
    active(LfiwConfig, over=UniformConfig(), use="priority"),
]
strategies = pytest.mark.parametrize("config", STRATEGIES, ids=label)


@strategies
def test_strategys_state_is_a_scan_carry(config: Any) -> None:
    replay = make_replay(config, make_context(capacity=CAPACITY))
    state = jax.eval_shape(replay.init, KEY)
    added = jax.eval_shape(replay.add, state, jnp.asarray(random_rows(0, 5)))
    assert signature(added) == signature(state)
    sampled, sample, trace = jax.eval_shape(
        lambda state: replay.sample(state, replay.draw(KEY), MIDWAY), state
    )
    assert signature(sampled) == signature(state)
    expected = jax.eval_shape(unit_batch)
    assert signature(sample) == signature(expected)
    fed = jax.eval_shape(replay.feedback, state, sample, jnp.ones((2, BATCH)))
    assert signature(fed) == signature(state)
    assert {leaf.dtype for leaf in jax.tree.leaves(trace)} <= {np.dtype(np.float32)}
    jax.eval_shape(replay.metrics, trace)
    assert replay.ring(state).rows.shape == (CAPACITY, SPEC.row_size)


@strategies
@pytest.mark.parametrize("count", [20, 90], ids=["filling", "wrapped"])
def test_samples_are_sound(config: Any, count: int) -> None:
    case = strategy(config)
    state = case.filled(count)
    ring = case.replay.ring(state)
    assert ring.size == min(count, CAPACITY)
    errors = np.logspace(-6, 6, 2 * BATCH).reshape(2, BATCH)
    for number in range(5):
        state, sample, _ = case.sample(state, jax.random.key(number))
        for weights in (sample.weights, sample.policy_weights):
            assert np.all(np.isfinite(weights)) and np.all(np.asarray(weights) >= 0)
            assert np.sum(weights) > 0
        slots = np.asarray(sample.slots)
        assert np.all((slots >= 0) & (slots < ring.size))
        stored = unpack_rows(ring.rows[slots], SPEC)
        jax.tree.map(np.testing.assert_array_equal, sample.batch, stored)
        state = case.replay.feedback(state, sample, jnp.asarray(errors, jnp.float32))
    jax.tree.map(np.testing.assert_array_equal, case.replay.ring(state), ring)


@strategies
def test_sampling_is_a_pure_function(config: Any) -> None:
    case = strategy(config)
    state = case.filled(60)
    first, again = (case.sample(state, jax.random.key(1)) for _ in range(2))
    assert same_bits(first, again)
    _, other, _ = case.sample(state, jax.random.key(2))
    assert np.mean(np.asarray(other.slots) != np.asarray(first[1].slots)) > 0.5


@strategies
def test_weights_carry_no_gradient(config: Any) -> None:
    case = strategy(config)
    state = case.filled(60)

    def total(state: Any) -> Array:
        _, sample, _ = case.replay.sample(state, case.replay.draw(KEY), MIDWAY)
        numbers = jnp.arange(BATCH) ** 2.0
        return jnp.sum(numbers * sample.weights) + jnp.sum(numbers * sample.policy_weights)

    gradient = quick_jit(jax.grad(total, allow_int=True))(state)
    networks = jax.tree.leaves(case.replay.networks(gradient))
    for array in [case.replay.ring(gradient).rows, *networks]:
        np.testing.assert_array_equal(array, 0.0)


def test_names_are_those_of_the_registry() -> None:
    for registry in (AGENTS, REPLAYS):
        assert [kind.name for kind in registry.values()] == list(registry)
        assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in registry)


@pytest.mark.parametrize("kind", [*AGENTS.values(), *REPLAYS.values()], ids=label)
def test_every_entry_has_a_paper_preset(kind: type[Any]) -> None:
    assert type(kind.paper()) is kind


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("replay", list(REPLAYS))
@pytest.mark.parametrize("agent", list(AGENTS))
def test_configs_survive_json(agent: str, replay: str, preset: str) -> None:
    config = make_config("Hopper-v5", agent, replay, preset, seeds=(3, 5), batch_size=32)
    for name, value in traced_settings(config).items():
        config = override(config, name, value / 2 if isinstance(value, float) else value + 1)
    stored = json.loads(json.dumps(to_json(config)))
    restored = config_from_json(stored)
    assert restored == config
    assert program_key(restored) == program_key(config)


PAIRS = [(kind, UniformConfig) for kind in AGENTS.values()] + [
    (SacConfig, kind) for kind in REPLAYS.values() if kind is not UniformConfig
]


def traced_names() -> list[tuple[type[Any], type[Any], str]]:
    """Every traced setting of an agent, over uniform; and of a strategy, under one agent."""
    found = []
    for agent, replay in PAIRS:
        part = "agent." if replay is UniformConfig else "replay."
        settings = traced_settings(train_config(active(agent), active(replay)))
        found += [(agent, replay, name) for name in settings if name.startswith(part)]
    return found + [(SacConfig, kind, "schedule_env_steps") for kind in (PerConfig, EreConfig)]


def outcome(case: Program, changes: dict[str, float]) -> Any:
    """All that a run makes of its settings: initial state, learned state, policy."""
    scalars = as_arrays(traced_settings(case.config) | changes)
    state, _ = case.run(changes)
    state, _ = case.run(changes, state, updates=4)  # by now priorities differ
    return case.init(scalars, jnp.uint32(0)), state, case.learner.policy(state, scalars)


@cache
def usual_outcome(agent: Any, replay: Any) -> Any:
    return outcome(program(agent, replay), {})


@pytest.mark.parametrize(("agent", "replay", "name"), traced_names(), ids=label)
def test_one_program_serves_every_value(agent: type[Any], replay: type[Any], name: str) -> None:
    case = program(active(agent), active(replay))
    value = traced_settings(case.config)[name]
    other = value / 2 if isinstance(value, float) else value + 10**6
    assert program_key(override(case.config, name, other)) == program_key(case.config)
    assert not same_bits(outcome(case, {name: other}), usual_outcome(active(agent), active(replay)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 8),
        ("buffer_size", 100),
        ("agent.hidden_sizes", (4,)),
        ("replay.transform", "power"),
        ("replay.clip_ratio", True),
        ("updates_per_call", 2),
    ],
)
def test_other_settings_need_a_program_of_their_own(name: str, value: Any) -> None:
    config = train_config(active(SacConfig), active(LfiwConfig))
    assert program_key(override(config, name, value)) != program_key(config)


def test_seeds_share_a_program() -> None:
    config = train_config(active(SacConfig), active(LfiwConfig))
    assert program_key(override(config, "seeds", (1, 2))) == program_key(config)
