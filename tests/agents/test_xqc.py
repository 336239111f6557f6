from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from programs import BATCH, MIDWAY, SPEC, quick_jit, random_rows, same_bits

from lfiw.acting.networks import numpy_network
from lfiw.acting.policy import NumpyPolicy
from lfiw.agents.base import Agent
from lfiw.agents.normed_sac import NormedSacState
from lfiw.agents.sac import SacConfig, make_sac
from lfiw.agents.xqc import XqcConfig, make_xqc
from lfiw.networks.normed import EPSILON, NormedMlp
from lfiw.types import Clock, Sample, Transition, unpack_rows

KEY = jax.random.key(0)
SIZES = (8, 8)
OFF: dict[str, Any] = {
    **dict.fromkeys(("categorical", "scale_rewards", "batch_norm", "unit_norm"), False),
    "policy_delay": 1,
}
START, MIDDLE, END = (Clock(jnp.int32(0), jnp.int32(0), share) for share in (0.0, 0.5, 1.0))


def make(**settings: Any) -> Agent:
    return make_xqc(XqcConfig(hidden_sizes=SIZES, **settings), SPEC, BATCH)


def some_sample(weights: Array | None = None) -> Sample:
    batch = unpack_rows(jnp.asarray(random_rows(3, BATCH)), SPEC)
    ones = jnp.ones(BATCH)
    return Sample(batch, jnp.arange(BATCH), ones if weights is None else weights, ones)


def updated(
    agent: Agent,
    state: Any,
    sample: Sample | None = None,
    clock: Clock = MIDWAY,
    turn: int | None = None,
) -> tuple[Any, Array, Any]:
    """One update, by default at the turn that updates the policy too."""
    update = quick_jit(agent.update, static_argnums=4)
    turn = agent.period - 1 if turn is None else turn
    return update(state, sample or some_sample(), agent.draw(KEY), clock, turn)


def started(agent: Agent) -> NormedSacState:
    state: NormedSacState = quick_jit(agent.init)(KEY)
    return agent.observe(state, jnp.asarray(random_rows(0, 50)))


def close(one: Any, other: Any, tolerance: float = 1e-5) -> None:
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), one, other
    )


def test_without_its_ingredients_it_is_sac() -> None:
    """Three updates of both from the same networks; Adam makes small differences large."""
    shared = {"learning_rate": 1e-3, "gamma": 0.9, "target_entropy": -1.5, "initial_alpha": 0.5}
    xqc = make(**OFF, **shared, learning_rate_end=1e-3)
    sac = make_sac(SacConfig(hidden_sizes=SIZES, **shared), SPEC, BATCH)
    theirs = quick_jit(sac.init)(KEY)
    mine: NormedSacState = started(xqc)._replace(
        actor=NormedMlp(theirs.actor, ()),
        critics=NormedMlp(theirs.critics, ()),
        target_critics=NormedMlp(theirs.target_critics, ()),
    )
    weights = jnp.linspace(0.0, 2.0, BATCH)
    for _ in range(3):
        mine, my_errors, my_trace = updated(xqc, mine, some_sample(weights))
        theirs, their_errors, their_trace = updated(sac, theirs, some_sample(weights))
        close(my_errors, their_errors)
        my_metrics, their_metrics = xqc.metrics(my_trace), sac.metrics(their_trace)
        close({name: my_metrics[name] for name in their_metrics}, their_metrics)
    close(mine.actor.layers, theirs.actor)
    close(mine.critics.layers, theirs.critics)
    close(mine.target_critics.layers, theirs.target_critics)
    close(mine.log_alpha, theirs.log_alpha)
    assert not same_bits(theirs.actor, quick_jit(sac.init)(KEY).actor)
    close(xqc.policy(mine), sac.policy(theirs))
    close(xqc.networks(mine), sac.networks(theirs))


@pytest.mark.parametrize("ingredient", ["categorical", "scale_rewards", "batch_norm", "unit_norm"])
def test_every_ingredient_has_an_effect_of_its_own(ingredient: str) -> None:
    def td_errors(**settings: Any) -> Array:
        """After one update: what both did to the critics shows in them."""
        agent = make(**settings)
        return updated(agent, updated(agent, started(agent))[0])[1]

    assert not np.allclose(td_errors(), td_errors(**{ingredient: False}), rtol=1e-3)
    assert not np.allclose(td_errors(**OFF), td_errors(**{**OFF, ingredient: True}), rtol=1e-3)


def test_learning_rate_falls_linearly() -> None:
    """The first step of Adam is the learning rate: 1e-2, then half-way to 2e-3, then that."""
    agent = make(**OFF, learning_rate=1e-2, learning_rate_end=2e-3)
    before = started(agent)
    for clock, rate in ((START, 1e-2), (MIDDLE, 6e-3), (END, 2e-3)):
        after, _, _ = updated(agent, before, clock=clock)
        steps = [
            np.abs(np.asarray(new.bias - old.bias))
            for new, old in zip(after.critics.layers, before.critics.layers, strict=True)
        ]
        np.testing.assert_allclose(np.max(np.concatenate(steps, axis=-1)), rate, rtol=1e-2)
        np.testing.assert_allclose(np.abs(after.log_alpha - before.log_alpha), rate, rtol=1e-2)


def test_schedule_of_the_policy_counts_its_own_updates() -> None:
    """With a delay of 4 an eighth of it is over for the policy half-way: 1e-2 - 8e-3 / 8."""
    agent = make(**OFF | {"policy_delay": 4}, learning_rate=1e-2, learning_rate_end=2e-3)
    before = started(agent)
    after, _, _ = updated(agent, before, clock=MIDDLE)
    np.testing.assert_allclose(np.abs(after.log_alpha - before.log_alpha), 9e-3, rtol=1e-2)
    steps = jax.tree.map(lambda new, old: np.max(np.abs(new - old)), after.actor, before.actor)
    np.testing.assert_allclose(max(jax.tree.leaves(steps)), 9e-3, rtol=1e-2)


def test_policy_waits_for_its_turn() -> None:
    agent = make(policy_delay=3)
    assert agent.period == 3
    before = started(agent)
    for turn in (0, 1):
        after, _, trace = updated(agent, before, turn=turn)
        assert same_bits(after.actor, before.actor) and same_bits(after.log_alpha, before.log_alpha)
        assert same_bits(after.actor_statistics, before.actor_statistics)
        assert not same_bits(after.critics, before.critics)
        assert not same_bits(after.target_critics, before.target_critics)
        assert "actor_loss" not in agent.metrics(trace)
    after, _, trace = updated(agent, before, turn=2)
    assert not same_bits(after.actor, before.actor)
    assert not same_bits(after.log_alpha, before.log_alpha)
    assert {"actor_loss", "alpha", "entropy"} <= agent.metrics(trace).keys()


def test_weights_stay_at_norm_one() -> None:
    agent = make(learning_rate=0.1)
    state = started(agent)
    for _ in range(2):
        for layer in (*state.actor.layers, *state.critics.layers):
            np.testing.assert_allclose(np.sum(np.square(layer.weight), axis=-2), 1.0, rtol=1e-4)
        state, _, _ = updated(agent, state)


def test_statistics_are_of_present_and_next_pairs_together() -> None:
    agent = make()
    before = started(agent)
    sample = some_sample()
    after, _, _ = updated(agent, before, sample)
    obs = np.concatenate([sample.batch.obs, sample.batch.next_obs])
    of_obs = slice(0, SPEC.obs_size)
    for critic in range(2):
        moments = jax.tree.map(lambda leaf, critic=critic: leaf[critic], after.critic_statistics[0])
        # From mean 0 and variance 1 by a hundredth towards the batch's.
        np.testing.assert_allclose(moments.mean[of_obs], 0.01 * obs.mean(axis=0), atol=1e-6)
        np.testing.assert_allclose(
            moments.variance[of_obs], 1 + 0.01 * (obs.var(axis=0) - 1), rtol=1e-5
        )
    # The policy's alone, as often as in the three updates of which one changes it.
    own, rate = np.asarray(sample.batch.obs), 1 - 0.99**3
    np.testing.assert_allclose(
        after.actor_statistics[0].mean, rate * own.mean(axis=0), rtol=1e-4, atol=1e-7
    )


def test_next_pairs_count_in_the_normalisation_of_the_present_ones() -> None:
    """Without BatchNorm the successors of terminated transitions have no effect."""
    sample = some_sample()
    ended = sample.batch._replace(discount=jnp.zeros(BATCH))
    other = ended._replace(next_obs=ended.next_obs + 3.0)

    def errors(agent: Agent, batch: Transition) -> Array:
        return updated(agent, started(agent), sample._replace(batch=batch))[1]

    joint, separate = make(), make(batch_norm=False)
    assert not same_bits(errors(joint, ended), errors(joint, other))
    close(errors(separate, ended), errors(separate, other))


def test_rewards_are_scaled_and_errors_are_in_the_units_of_the_task() -> None:
    """A task with rewards a thousand times as large is the same task."""
    large = jnp.asarray(random_rows(0, 50)).at[:, SPEC.obs_size + SPEC.action_size].multiply(1000)
    agent = make()
    state = quick_jit(agent.init)(KEY)
    sample = some_sample()
    of_large = sample._replace(batch=sample.batch._replace(reward=1000 * sample.batch.reward))
    one, errors, trace = updated(agent, started(agent), sample)
    other, large_errors, large_trace = updated(agent, agent.observe(state, large), of_large)
    close(one.critics, other.critics, 1e-3)
    np.testing.assert_allclose(large_errors, 1000 * errors, rtol=1e-3, atol=1e-2)
    scales = [agent.metrics(own)["reward_scale"] for own in (trace, large_trace)]
    np.testing.assert_allclose(scales[1], 1000 * scales[0], rtol=1e-4)


def test_critics_in_a_snapshot_give_q_in_the_units_of_the_task() -> None:
    """The batch's own statistics, so that the numpy critics repeat the pass of the update."""
    agent = make(unit_norm=False)
    state = started(agent)
    _, _, trace = updated(agent, state)
    before, _, _ = updated(agent, state)
    seen = jax.tree.map(
        lambda new, old: old + (new - old) / 0.01, before.critic_statistics, state.critic_statistics
    )
    critics = numpy_network(
        jax.device_get(agent.networks(state._replace(critic_statistics=seen))), "critics"
    )
    batch = some_sample().batch
    q = critics(np.concatenate([batch.obs, batch.action], axis=-1))[..., 0]
    np.testing.assert_allclose(q, trace["q"], rtol=1e-2, atol=1e-2)


def test_numpy_policy_normalises_by_the_running_statistics() -> None:
    agent = make()
    state, _, _ = updated(agent, started(agent))
    statistics = jax.tree.map(lambda leaf: leaf + 0.3, state.actor_statistics)
    state = state._replace(actor_statistics=statistics)
    obs = np.random.default_rng(0).standard_normal((20, SPEC.obs_size)).astype(np.float32)
    first, second, last = state.actor.layers

    def normalised(x: Any, at: int) -> Any:
        norm, moments = state.actor.norms[at], statistics[at]
        return (x - moments.mean) / np.sqrt(moments.variance + EPSILON) * norm.scale + norm.shift

    hidden = np.maximum(normalised(normalised(obs, 0) @ first.weight, 1), 0)
    hidden = np.maximum(normalised(hidden @ second.weight, 2), 0)
    mean = (hidden @ last.weight + last.bias)[:, : SPEC.action_size]
    policy = NumpyPolicy(jax.device_get(agent.policy(state)))
    np.testing.assert_allclose(policy.act(obs), np.tanh(mean), atol=1e-5)


def test_sizes() -> None:
    assert XqcConfig().layers == ((256, 256), (256, 256))
    assert XqcConfig.paper().layers == ((512,) * 4, (256,) * 4)
    assert XqcConfig(size="published", hidden_sizes=(7,)).layers == ((7,), (7,))


def test_entropy_target_is_half_the_action_size() -> None:
    """Adam's first moment is a tenth of the gradient -(log pi + target)."""
    moments = []
    for settings in ({}, {"target_entropy": -SPEC.action_size / 2}, {"target_entropy": -9.0}):
        agent = make(**settings)
        moments.append(np.asarray(updated(agent, started(agent))[0].alpha_opt.mu))
    np.testing.assert_array_equal(moments[0], moments[1])
    np.testing.assert_allclose(
        moments[2] - moments[0], 0.1 * (9.0 - SPEC.action_size / 2), rtol=1e-4
    )
