from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import (
    BATCH,
    CAPACITY,
    MIDWAY,
    SPEC,
    STORED,
    Program,
    active,
    as_arrays,
    close,
    draw_sample,
    make_context,
    program,
    quick_jit,
    random_rows,
    same_bits,
    train_config,
)

from lfiw.agents import make_agent
from lfiw.agents.sac import SacConfig
from lfiw.agents.td3 import Td3Config
from lfiw.learning.learner import make_learner, state_bytes, updates_in_call
from lfiw.learning.scalars import traced_settings, with_scalars
from lfiw.replay import REPLAYS, make_replay
from lfiw.replay.ere import EreConfig
from lfiw.replay.lfiw import LfiwConfig
from lfiw.replay.per import PerConfig
from lfiw.replay.uniform import UniformConfig

RING_BYTES = 4 * CAPACITY * SPEC.row_size


@pytest.fixture(scope="module")
def sac() -> Program:
    return program(active(SacConfig), active(LfiwConfig))


@pytest.fixture(scope="module")
def td3() -> Program:
    return program(active(Td3Config), UniformConfig())


@pytest.mark.parametrize(
    ("phase", "per_env_step", "most", "period", "expected"),
    [
        (200, 1.0, 100, 1, 100),
        (200, 1.0, 100, 2, 100),  # 100 cycles in two calls of 50
        (150, 1.0, 100, 1, 75),  # the largest divisor within 100
        (150, 1.0, 100, 2, 50),  # 75 cycles in three calls of 25
        (7, 1.0, 100, 1, 7),  # all of a short phase
        (7, 1.0, 100, 2, 6),  # whole cycles; the rest is due later
        (97, 1.0, 10, 1, 1),  # a prime
        (4, 2.0, 100, 1, 8),
        (200, 0.25, 100, 1, 50),
        (1, 0.1, 100, 1, 1),  # at least one update
        (1, 1.0, 100, 3, 3),  # at least one cycle
        (100, 1.0, 1, 2, 2),
    ],
)
def test_updates_in_a_call(
    phase: int, per_env_step: float, most: int, period: int, expected: int
) -> None:
    config = train_config(
        active(SacConfig),
        UniformConfig(),
        phase_env_steps=phase,
        updates_per_env_step=per_env_step,
        updates_per_call=most,
    )
    assert updates_in_call(config, period) == expected


def test_a_call_makes_its_updates(sac: Program, td3: Program) -> None:
    for case, policy_updates in ((sac, 4), (td3, 2)):
        state, _ = case.run()
        assert state.agent.critic_opt[0].count == 4
        assert state.agent.actor_opt[0].count == policy_updates
        assert not same_bits(state.agent.critics, case.start.agent.critics)


@pytest.mark.parametrize(
    ("agent", "replay", "quick"),
    [
        (SacConfig, UniformConfig, False),
        (SacConfig, LfiwConfig, True),
    ],
)
def test_two_calls_equal_one_of_twice_the_length(
    agent: type[Any], replay: type[Any], quick: bool
) -> None:
    halves = program(active(agent), active(replay), 4, quick)
    whole = program(active(agent), active(replay), 8, quick)
    first, first_metrics = halves.run()
    second, second_metrics = halves.run(state=first, updates=4)
    state, metrics = whole.run()
    assert not same_bits(first, second)
    assert same_bits(second, state)
    for name, value in metrics.items():
        mean = (np.asarray(first_metrics[name]) + np.asarray(second_metrics[name])) / 2
        np.testing.assert_allclose(value, mean, rtol=1e-4, atol=1e-6, err_msg=name)


def test_draws_follow_the_count_of_updates(sac: Program) -> None:
    first, _ = sac.run(updates=0)
    later, _ = sac.run(updates=4)
    assert same_bits(first.key, later.key)
    drawn = [
        np.flatnonzero(np.asarray(s.replay.base.tree[-1])[:STORED] != 1) for s in (first, later)
    ]
    assert 2 * BATCH < len(drawn[0]) <= 4 * BATCH
    assert len(set(drawn[0]) & set(drawn[1])) < 0.6 * len(drawn[0])


@pytest.mark.parametrize("agent", [SacConfig, Td3Config], ids=lambda kind: kind.name)
def test_the_clock_runs_through_a_call(agent: type[Any]) -> None:
    _, metrics = program(active(agent), active(EreConfig)).run()
    # Midway eta is 0.99, so updates 1 to 4 of the cycle have windows of 50,000 * 0.99^(250 k) =
    # 4053, 328, 26.6 and 2.2, at most the 200 stored rows and at least 4.
    np.testing.assert_allclose(metrics["window"], (200 + 200 + 26.6 + 4) / 4, rtol=1e-3)


def test_seeds_differ(sac: Program) -> None:
    scalars = as_arrays(traced_settings(sac.config))
    one, other = (sac.init(scalars, jnp.uint32(seed)) for seed in (0, 2**32 - 1))
    assert same_bits(one, sac.init(scalars, jnp.uint32(0)))
    assert not same_bits(one.key, other.key)
    assert not same_bits(one.agent.actor, other.agent.actor)
    assert not same_bits(one.agent.critics, other.agent.critics)
    assert not same_bits(one.replay.ratio.network, other.replay.ratio.network)


def test_rows_reach_the_ring(td3: Program) -> None:
    ring = td3.start.replay
    assert (ring.head, ring.size) == (STORED, STORED)
    np.testing.assert_array_equal(ring.rows[:STORED], random_rows(0, STORED))
    learned, _ = td3.run()
    assert same_bits(learned.replay, ring)


def test_ring_is_no_larger_than_the_run() -> None:
    config = train_config(active(SacConfig), UniformConfig(), env_steps=300)
    learner = make_learner(config, SPEC)
    state = jax.eval_shape(learner.init, as_arrays(traced_settings(config)), jnp.uint32(0))
    assert state.replay.rows.shape == (300, SPEC.row_size)


def test_a_call_equals_its_updates_one_by_one() -> None:
    case = program(active(Td3Config), active(EreConfig))
    agent = make_agent(case.config.agent, SPEC, BATCH)
    replay = make_replay(case.config.replay, make_context(capacity=CAPACITY))
    update = quick_jit(agent.update, static_argnums=4)
    state = case.start.agent
    for number in range(4):
        key_replay, key_agent = jax.random.split(jax.random.fold_in(case.start.key, number))
        clock = MIDWAY._replace(updates=jnp.int32(number))
        _, sample, _ = draw_sample(replay, case.start.replay, key_replay, clock)
        state, _, _ = update(state, sample, agent.draw(key_agent), clock, number % 2)
    assert close(case.run()[0].agent, state)


def test_memory_of_a_run(sac: Program) -> None:
    arrays = jax.tree.leaves(jax.tree.map(lambda leaf: leaf.nbytes, sac.start))
    assert state_bytes(sac.config, SPEC) == sum(arrays) > RING_BYTES


def test_scalars_replace_settings() -> None:
    config = train_config(active(SacConfig), active(LfiwConfig))
    changed = with_scalars(
        config, {"agent.gamma": 0.5, "replay.over.alpha": 0.1, "schedule_env_steps": 7}
    )
    assert (changed.agent.gamma, changed.replay.over.alpha) == (0.5, 0.1)
    assert changed.schedule_horizon == 7
    assert changed.agent.tau == config.agent.tau


def test_traced_settings_by_hand() -> None:
    settings = traced_settings(
        train_config(SacConfig(), LfiwConfig(over=PerConfig()), schedule_env_steps=None)
    )
    assert settings == {
        "schedule_env_steps": CAPACITY,  # as many as the run has
        "agent.learning_rate": 3e-4,
        "agent.gamma": 0.99,
        "agent.tau": 5e-3,
        "agent.initial_alpha": 1.0,
        "replay.temperature": 5.0,
        "replay.min_effective_sample_size": 0.6,
        "replay.fast_size": 10_000,
        "replay.warmup_env_steps": 100_000,
        "replay.over.alpha": 0.6,
        "replay.over.beta": 0.4,
        "replay.over.beta_end": 1.0,
        "replay.over.epsilon": 1e-6,
    }
    assert traced_settings(train_config(Td3Config(), EreConfig(), schedule_env_steps=7)) == {
        "schedule_env_steps": 7,
        "agent.learning_rate": 1e-3,
        "agent.gamma": 0.99,
        "agent.tau": 5e-3,
        "agent.exploration_noise": 0.1,
        "agent.target_policy_noise": 0.2,
        "agent.target_noise_clip": 0.5,
        "replay.eta": 0.996,
        "replay.eta_end": 1.0,
        "replay.min_window": 5000,
        "replay.cycle_updates": 1000,
    }


def test_snapshots_hold_every_network(sac: Program) -> None:
    scalars = as_arrays(traced_settings(sac.config))
    arrays = sac.learner.snapshot(sac.start, scalars)
    layers = [f"{layer}.{part}" for layer in (0, 1) for part in ("weight", "bias")]
    names = {f"{network}.{name}" for network in ("policy", "critics", "ratio") for name in layers}
    assert set(arrays) == names
    agent = sac.start.agent
    np.testing.assert_array_equal(arrays["policy.1.bias"], agent.actor[1].bias)
    np.testing.assert_array_equal(arrays["critics.0.weight"], agent.critics[0].weight)
    np.testing.assert_array_equal(arrays["ratio.0.bias"], sac.start.replay.ratio.network[0].bias)
    policy = sac.learner.policy(sac.start, scalars)
    np.testing.assert_array_equal(policy["gaussian.1.bias"], arrays["policy.1.bias"])


@pytest.mark.parametrize("replay", REPLAYS.values(), ids=lambda kind: kind.name)
def test_the_ring_is_updated_in_place(replay: type[Any]) -> None:
    case = program(active(SacConfig), active(replay))
    rows = jnp.asarray(random_rows(0, 50))
    scalars = as_arrays(traced_settings(case.config))
    add = quick_jit(case.learner.add, donate_argnums=0).lower(case.start, scalars, rows).compile()
    for compiled in (case.learn, add):
        memory = compiled.memory_analysis()
        assert memory.alias_size_in_bytes >= RING_BYTES
        # PER may keep a copy of its priorities, one of a row's 20 numbers.
        assert memory.temp_size_in_bytes < RING_BYTES / 8


def test_a_donated_state_is_gone(td3: Program) -> None:
    state = jax.tree.map(jnp.copy, td3.start)
    td3.learn(state, as_arrays(traced_settings(td3.config)), MIDWAY)
    assert state.replay.rows.is_deleted()
