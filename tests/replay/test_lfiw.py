from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import (
    Program,
    active,
    close,
    draw_sample,
    make_context,
    program,
    quick_jit,
    random_rows,
    same_bits,
    small,
)

import lfiw.replay.lfiw
from lfiw.agents.sac import SacConfig
from lfiw.ratio import Ratio, ratio_weights
from lfiw.replay.base import HUBER, Replay
from lfiw.replay.ere import EreConfig
from lfiw.replay.lap import LapConfig
from lfiw.replay.lfiw import (
    LfiwConfig,
    LfiwState,
    effective_sample_size,
    make_lfiw,
)
from lfiw.replay.per import PerConfig
from lfiw.replay.priorities import Prioritised
from lfiw.replay.ring import weight_by_age
from lfiw.replay.uniform import UniformConfig, make_uniform
from lfiw.types import SQUARES, Clock, EnvSpec, Sample

SPEC = EnvSpec(obs_size=1, action_size=1)
CAPACITY = 100
WARMUP = 50
BATCH = 256


def clock(env_steps: int) -> Clock:
    return Clock(jnp.int32(env_steps), jnp.int32(0))


def numbered_rows(count: int) -> np.ndarray:
    """The observation of row i is i."""
    rows = random_rows(0, count, SPEC)
    rows[:, 0] = np.arange(count)
    return rows


def known_ratio(*_: Any) -> Ratio:
    """Its logit is the observation, and its metrics show all that it was given."""
    return Ratio(
        init=lambda key: {"updates": jnp.zeros(())},
        update=lambda state, slow, fast: (
            {"updates": state["updates"] + 1},
            slow[:, 0],
            fast[:, 0],
        ),
        logits=lambda state, inputs: inputs[:, 0] + 1000 * state["updates"],
        metrics=lambda slow, fast: {"slow": slow, "fast": fast},
    )


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lfiw.replay.lfiw, "make_ratio", known_ratio)


def make(batch_size: int = BATCH, **settings: Any) -> Replay:
    plain = {"warmup_env_steps": WARMUP, "fast_size": 10, "min_effective_sample_size": 0.0}
    config = LfiwConfig(**plain | settings)
    return make_lfiw(config, make_context(SPEC, CAPACITY, batch_size=batch_size))


def filled(replay: Replay, rows: np.ndarray) -> LfiwState:
    return replay.add(quick_jit(replay.init)(jax.random.key(0)), rows)


@pytest.mark.usefixtures("known")
class TestWithAKnownRatio:
    @pytest.mark.parametrize("transform", ["power", "sigmoid"])
    def test_weights_are_those_of_the_drawn_transitions(self, transform: str) -> None:
        replay = make(transform=transform, temperature=20.0)
        _, sample, _ = draw_sample(
            replay, filled(replay, numbered_rows(80)), jax.random.key(1), clock(WARMUP)
        )
        logits = np.asarray(sample.batch.obs)[:, 0]
        np.testing.assert_array_equal(logits, sample.slots)
        raw = np.exp(logits / 20)
        raw = raw / (1 + raw) if transform == "sigmoid" else raw
        np.testing.assert_allclose(sample.weights, raw / np.mean(raw), rtol=1e-4)
        assert np.ptp(sample.weights) > 0.1
        np.testing.assert_array_equal(sample.policy_weights, 1.0)

    def test_weights_are_ones_until_the_warm_up_ends(self) -> None:
        replay = make()
        state = filled(replay, numbered_rows(80))
        early = draw_sample(replay, state, jax.random.key(1), clock(WARMUP - 1))
        late = draw_sample(replay, state, jax.random.key(1), clock(WARMUP))
        np.testing.assert_array_equal(early[1].weights, 1.0)
        np.testing.assert_array_equal(early[2]["effective_sample_size"], 1.0)
        assert np.ptp(late[1].weights) > 0.1
        # The network trains all the same, and the draws are the same.
        assert early[0].ratio["updates"] == late[0].ratio["updates"] == 1
        np.testing.assert_array_equal(early[1].slots, late[1].slots)

    @pytest.mark.parametrize(
        ("count", "fast"),
        [
            (30, range(20, 30)),
            (5, range(5)),  # all there is
            (10, range(10)),
        ],
    )
    def test_fast_draws_come_from_the_newest(self, count: int, fast: range) -> None:
        replay = make()
        state = filled(replay, numbered_rows(count))
        _, sample, metrics = draw_sample(replay, state, jax.random.key(1), clock(0))
        assert set(np.asarray(metrics["fast"])) == set(fast)
        assert set(np.asarray(sample.slots)) == set(range(count))

    def test_fast_draws_follow_the_ring_around(self) -> None:
        replay = make()
        state = filled(replay, numbered_rows(100))
        state = replay.add(state, numbered_rows(104)[100:])
        _, sample, metrics = draw_sample(replay, state, jax.random.key(1), clock(0))
        assert set(np.asarray(metrics["fast"])) == set(range(94, 104))
        drawn = np.asarray(sample.batch.obs)[:, 0]
        assert drawn.min() >= 4 and np.sum(drawn >= 100) > 0

    def test_the_slow_half_is_the_critics_own_batch(self) -> None:
        replay = make()
        state = filled(replay, numbered_rows(80))
        _, sample, metrics = draw_sample(replay, state, jax.random.key(1), clock(0))
        np.testing.assert_array_equal(metrics["slow"], sample.batch.obs[:, 0])
        # and the fast half is drawn on its own
        fast = np.asarray(metrics["fast"])
        assert np.mean(fast - 70 == np.asarray(sample.slots) % 10) < 0.5

    @pytest.mark.parametrize(("count", "bound"), [(40, 4.0), (80, 8.0), (8, 1.0)])
    def test_ratios_are_clipped_at_slow_over_fast(self, count: int, bound: float) -> None:
        replay = make(clip_ratio=True, transform="power", temperature=1.0)
        rows = numbered_rows(count)
        rows[:, 0] = np.where(np.arange(count) % 2 == 0, 50.0, np.log(0.5))
        state = filled(replay, rows)
        _, sample, _ = draw_sample(replay, state, jax.random.key(1), clock(WARMUP))
        raw = np.where(np.asarray(sample.slots) % 2 == 0, bound, 0.5)
        np.testing.assert_allclose(sample.weights, raw / np.mean(raw), rtol=1e-5)

    def test_weight_policy_hands_the_same_weights_to_the_policy(self) -> None:
        replay = make(weight_policy=True)
        state = filled(replay, numbered_rows(80))
        _, sample, _ = draw_sample(replay, state, jax.random.key(1), clock(WARMUP))
        assert np.ptp(sample.weights) > 0.1
        np.testing.assert_array_equal(sample.policy_weights, sample.weights)
        _, sample, _ = draw_sample(replay, state, jax.random.key(1), clock(0))
        np.testing.assert_array_equal(sample.policy_weights, 1.0)

    def test_diagnostics_are_those_of_the_weights(self) -> None:
        replay = make(temperature=20.0)
        state = filled(replay, numbered_rows(80))
        _, sample, metrics = draw_sample(replay, state, jax.random.key(1), clock(WARMUP))
        weights = np.asarray(sample.weights, np.float64)
        expected = np.sum(weights) ** 2 / np.sum(weights**2) / len(weights)
        np.testing.assert_allclose(metrics["effective_sample_size"], expected, rtol=1e-5)
        np.testing.assert_allclose(metrics["max_weight"], np.max(weights), rtol=1e-6)
        # 80 rows in five groups of 16; slot 79 is the newest
        group = (79 - np.asarray(sample.slots)) // 16
        by_age = [np.mean(weights[group == index]) for index in range(5)]
        np.testing.assert_allclose(metrics["weight_by_age"], by_age, rtol=1e-5)

    def per(self, **settings: Any) -> tuple[Replay, LfiwState]:
        """Over PER, where slot 3 has nearly all of the priority."""
        replay = make(over=PerConfig(alpha=1.0, beta=0.5, beta_end=0.5), **settings)
        state = filled(replay, numbered_rows(80))
        sample = Sample(None, jnp.array([3]), None, None)  # type: ignore[arg-type]
        return replay, replay.feedback(state, sample, jnp.full((2, 1), 79.0))

    def test_weights_over_per_are_the_product_with_mean_one(self) -> None:
        replay, state = self.per(temperature=20.0, transform="power", weight_policy=True)
        _, sample, metrics = draw_sample(replay, state, jax.random.key(2), clock(WARMUP))
        slots = np.asarray(sample.slots)
        assert 0.3 < np.mean(slots == 3) < 0.7
        # P is 1/2 for slot 3, 79 times what the others have; then (N P)^(-1/2)
        corrections = np.where(slots == 3, 79**-0.5, 1.0)
        ratios = np.exp(slots / 20)
        product = ratios * corrections
        np.testing.assert_allclose(sample.weights, product / np.mean(product), rtol=1e-4)
        # The policy and the diagnostics see the ratio alone.
        np.testing.assert_allclose(sample.policy_weights, ratios / np.mean(ratios), rtol=1e-4)
        np.testing.assert_allclose(
            metrics["max_weight"], np.max(ratios / np.mean(ratios)), rtol=1e-4
        )
        np.testing.assert_allclose(metrics["beta"], 0.5)
        np.testing.assert_allclose(metrics["is_weight_mean"], np.mean(corrections), rtol=1e-4)

    def test_over_per_the_warm_up_leaves_pers_weights_with_mean_one(self) -> None:
        replay, state = self.per()
        _, sample, _ = draw_sample(replay, state, jax.random.key(2), clock(WARMUP - 1))
        corrections = np.where(np.asarray(sample.slots) == 3, 79**-0.5, 1.0)
        np.testing.assert_allclose(sample.weights, corrections / np.mean(corrections), rtol=1e-4)

    def test_over_per_the_ratio_still_learns_from_uniform_draws(self) -> None:
        replay, state = self.per()
        _, sample, metrics = draw_sample(replay, state, jax.random.key(2), clock(WARMUP))
        assert np.mean(np.asarray(sample.slots) == 3) > 0.3
        slow, fast = np.asarray(metrics["slow"]), np.asarray(metrics["fast"])
        assert np.mean(slow == 3) < 0.15
        assert slow.max() > 60 and slow.min() < 20
        assert fast.min() >= 70
        assert len(set(slow)) > 15  # not the fast draw's bits again
        assert np.mean(slow % 10 == fast % 10) < 0.5

    def test_pers_priorities_are_updated(self) -> None:
        replay, state = self.per()
        sample = Sample(None, jnp.arange(4), None, None)  # type: ignore[arg-type]
        errors = jnp.array([[2.0, 5.0, 4.0, 9.0], [0.0, -6.0, 0.0, 0.0]])
        base: Prioritised = replay.feedback(state, sample, errors).base
        np.testing.assert_allclose(base.tree[-1][:6], [2, 6, 4, 9, 1, 1], rtol=1e-5)


@pytest.mark.parametrize("over", [UniformConfig(), PerConfig(), EreConfig()])
def test_weights_have_mean_one_and_the_network_moves(over: Any) -> None:
    replay = make(hidden_sizes=(8,), over=over, temperature=0.01)
    state = filled(replay, random_rows(0, 80, SPEC))
    draw = quick_jit(lambda state, key: draw_sample(replay, state, key, clock(WARMUP)))
    new_state, sample, _ = draw(state, jax.random.key(1))
    np.testing.assert_allclose(np.mean(sample.weights), 1.0, atol=1e-5)
    assert np.ptp(sample.weights) > 0
    assert not same_bits(new_state.ratio.network, state.ratio.network)
    kept = replay.networks(new_state)
    assert same_bits(kept["ratio.0.weight"], new_state.ratio.network[0].weight)
    assert same_bits(new_state.base, state.base)
    # The weights come from the network before its step (authors' code).
    network = small(LfiwConfig)
    inputs = jnp.concatenate([sample.batch.obs, sample.batch.action], axis=-1)
    logits = lfiw.ratio.make_ratio(network, 2, 1e-3).logits(state.ratio, inputs)
    expected = ratio_weights(logits, 0.01, "sigmoid")
    np.testing.assert_allclose(sample.weights, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("transform", "temperature", "env_steps", "floor"),
    [
        ("sigmoid", 1e30, WARMUP, 0.0),
        ("power", 1e30, WARMUP, 0.0),
        ("power", 0.1, WARMUP - 1, 0.0),
        ("power", 0.1, WARMUP, 1.0),
    ],
)
def test_infinite_temperature_warm_up_and_a_floor_of_one_are_uniform(
    transform: str, temperature: float, env_steps: int, floor: float
) -> None:
    replay = make(
        hidden_sizes=(8,),
        temperature=temperature,
        transform=transform,
        min_effective_sample_size=floor,
    )
    uniform = make_uniform(UniformConfig(), make_context(SPEC, CAPACITY, batch_size=BATCH))
    state = filled(replay, random_rows(0, 80, SPEC))
    start = state
    draw = quick_jit(lambda state, key: draw_sample(replay, state, key, clock(env_steps)))
    for number in range(3):
        key = jax.random.key(number)
        _, expected, _ = draw_sample(uniform, state.base, key, clock(env_steps))
        state, sample, _ = draw(state, key)
        assert same_bits(sample, expected)
    assert not same_bits(state.ratio.network, start.ratio.network)


def weighted_program() -> Program:
    return program(active(SacConfig), active(LfiwConfig, over=UniformConfig(), learning_rate=None))


@pytest.mark.parametrize(
    "changes",
    [{"temperature": 1e30}, {"warmup_env_steps": 10**6}, {"min_effective_sample_size": 1.0}],
)
def test_infinite_temperature_warm_up_and_a_floor_of_one_train_as_uniform(
    changes: dict[str, float],
) -> None:
    changes = {f"replay.{name}": value for name, value in changes.items()}
    uniform = program(active(SacConfig), UniformConfig())
    weighted = weighted_program()
    one, other = uniform.start, weighted.start
    assert same_bits(one.agent, other.agent)
    for updates in (0, 4, 8):
        one, _ = uniform.run(state=one, updates=updates)
        other, metrics = weighted.run(changes, state=other, updates=updates)
        np.testing.assert_array_equal(metrics["max_weight"], 1.0)
        np.testing.assert_array_equal(metrics["weight_by_age"], 1.0)
    # Not to the last bit: the compiler adds up in another order where weights are variables.
    assert close(one.agent, other.agent)


def test_the_floor_holds_in_training_and_is_logged() -> None:
    sharp = {"replay.temperature": 1e-4}
    weighted = weighted_program()
    _, without = weighted.run(sharp | {"replay.min_effective_sample_size": 0.0})
    _, metrics = weighted.run(sharp | {"replay.min_effective_sample_size": 0.99})
    size = without["effective_sample_size"]
    assert size < 0.99 and without["trust"] == 1
    np.testing.assert_array_equal(without["raw_effective_sample_size"], size)
    np.testing.assert_allclose(metrics["effective_sample_size"], 0.99, rtol=1e-4)
    assert 0 < metrics["trust"] < 1
    assert metrics["raw_effective_sample_size"] < 0.99


def test_weights_reach_the_agent() -> None:
    weighted = weighted_program()
    first, _ = weighted.run({"replay.temperature": 1e30})
    second, _ = weighted.run({"replay.temperature": 0.01})
    assert not close(first.agent.critics, second.agent.critics)


def test_the_ratio_learns_at_the_agents_rate() -> None:
    weighted = weighted_program()
    one, other = (
        weighted.run({"agent.learning_rate": rate})[0].replay.ratio.network for rate in (1e-3, 2e-3)
    )
    assert not close(one, other)


def test_weight_by_age_by_hand() -> None:
    # Of ten slots, ages 0 and 1 are the newest fifth, ages 8 and 9 the oldest.
    ages = jnp.array([0, 1, 2, 3, 9, 8, 8])
    weights = jnp.array([1.0, 2.0, 0.5, 0.5, 3.0, 0.0, 3.0])
    np.testing.assert_allclose(weight_by_age(weights, ages / 10), [1.5, 0.5, 1.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1.0, 1.0, 1.0, 1.0], 1.0),
        ([4.0, 0.0, 0.0, 0.0], 0.25),
        ([2.0, 2.0, 0.0, 0.0], 0.5),
        ([0.5, 1.5], 0.8),  # 1 / ((0.25 + 2.25) / 2)
        ([5.0, 15.0], 0.8),  # whatever their scale
    ],
)
def test_effective_sample_size_by_hand(weights: list[float], expected: float) -> None:
    np.testing.assert_allclose(effective_sample_size(jnp.array(weights)), expected, rtol=1e-6)


def test_critics_minimise_what_the_strategy_below_asks_for() -> None:
    over_lap = make_lfiw(LfiwConfig(over=LapConfig()), make_context())
    assert over_lap.td_loss is HUBER
    assert make_lfiw(LfiwConfig(), make_context()).td_loss is SQUARES
