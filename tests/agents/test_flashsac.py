from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from programs import BATCH, MIDWAY, SPEC, quick_jit, random_rows, same_bits

from lfiw.acting.networks import numpy_network
from lfiw.agents.base import Agent
from lfiw.agents.flashsac import FlashSacConfig, bounded, cosine, make_flashsac
from lfiw.agents.normed_sac import NormedSacState
from lfiw.agents.sac import sample_action
from lfiw.networks.residual import normed_residual
from lfiw.types import Clock, Sample, unpack_rows

KEY = jax.random.key(0)


def make(**settings: Any) -> Agent:
    return make_flashsac(FlashSacConfig(hidden_sizes=(8, 8), **settings), SPEC, BATCH)


def some_sample() -> Sample:
    batch = unpack_rows(jnp.asarray(random_rows(3, BATCH)), SPEC)
    return Sample(batch, jnp.arange(BATCH), jnp.ones(BATCH), jnp.ones(BATCH))


def updated(
    agent: Agent, state: Any, clock: Clock = MIDWAY, turn: int | None = None
) -> tuple[Any, Array, Any]:
    """One update, by default at the turn that updates the policy too."""
    update = quick_jit(agent.update, static_argnums=4)
    turn = agent.period - 1 if turn is None else turn
    return update(state, some_sample(), agent.draw(KEY), clock, turn)


def started(agent: Agent) -> NormedSacState:
    state: NormedSacState = quick_jit(agent.init)(KEY)
    return agent.observe(state, jnp.asarray(random_rows(0, 50)))


def clock_at(progress: float) -> Clock:
    return Clock(jnp.int32(0), jnp.int32(0), progress)


def test_learning_rate_falls_along_half_a_wave() -> None:
    """From 3 to 1: at a third of the way the cosine is 1/2, so that 3/4 of the way is left."""
    rates = [float(cosine(3.0, 1.0, clock_at(share))) for share in (0, 1 / 3, 0.5, 1)]
    np.testing.assert_allclose(rates, [3.0, 2.5, 2.0, 1.0], rtol=1e-6)


def test_deviations_stay_within_their_bounds() -> None:
    """At 0 half-way from -10 to 2; tanh(log(3) / 2) is 1/2."""
    outputs = jnp.array([-100.0, 0.0, np.log(3) / 2, 100.0])
    np.testing.assert_allclose(bounded(outputs), [-10.0, -4.0, -1.0, 2.0], rtol=1e-6)


def test_entropy_target_is_that_of_a_narrow_normal_distribution() -> None:
    """log(2 pi e 0.15^2) / 2 = (2.83788 - 3.79424) / 2 = -0.47818 for each dimension. Adam's
    first moment is a tenth of the gradient -(log pi + target)."""
    moments = []
    for settings in ({}, {"target_entropy": -0.47818 * SPEC.action_size}, {"target_entropy": -9.0}):
        agent = make(**settings)
        moments.append(np.asarray(updated(agent, started(agent))[0].alpha_opt.mu))
    np.testing.assert_allclose(moments[0], moments[1], atol=1e-6)
    np.testing.assert_allclose(moments[2] - moments[0], 0.1 * (9.0 - 0.95636), rtol=1e-4)


def test_policy_waits_for_its_turn_and_follows_the_schedule_by_its_own_updates() -> None:
    """With a delay of 2 the schedule's end is half its way: Adam's first step is 6e-3."""
    agent = make(learning_rate=1e-2, learning_rate_end=2e-3)
    assert agent.period == 2
    before = started(agent)
    after, _, _ = updated(agent, before, turn=0)
    assert same_bits(after.actor, before.actor) and same_bits(after.log_alpha, before.log_alpha)
    assert not same_bits(after.critics, before.critics)
    after, _, _ = updated(agent, before, clock=clock_at(1.0), turn=1)
    np.testing.assert_allclose(np.abs(after.log_alpha - before.log_alpha), 6e-3, rtol=1e-2)
    step = np.abs(after.actor.layers.head.bias - before.actor.layers.head.bias)
    np.testing.assert_allclose(np.max(step), 6e-3, rtol=1e-2)
    step = np.abs(after.critics.layers.head.bias - before.critics.layers.head.bias)
    np.testing.assert_allclose(np.max(step), 2e-3, rtol=1e-2)


def test_critics_and_policy_are_normalised_over_present_and_next_together() -> None:
    agent = make()
    after, _, _ = updated(agent, started(agent))
    batch = some_sample().batch
    obs = np.concatenate([batch.obs, batch.next_obs])
    for statistics in (
        after.actor_statistics,
        *(jax.tree.map(lambda leaf, i=i: leaf[i], after.critic_statistics) for i in range(2)),
    ):
        mean, variance = (leaf[: SPEC.obs_size] for leaf in statistics[0])
        # From mean 0 and variance 1 by a hundredth towards the batch's.
        np.testing.assert_allclose(mean, 0.01 * obs.mean(axis=0), atol=1e-6)
        np.testing.assert_allclose(variance, 1 + 0.01 * (obs.var(axis=0) - 1), rtol=1e-5)


def test_its_policy_is_asked_for_the_present_observations() -> None:
    """The densities are those of the first half of the pass over both; those of the second are of
    the next observations."""
    agent = make()
    state = started(agent)
    _, _, trace = updated(agent, state)
    batch = some_sample().batch
    network = normed_residual((SPEC.obs_size, 8, 8, 2 * SPEC.action_size))
    outputs, _ = network.apply(state.actor, jnp.concatenate([batch.obs, batch.next_obs]))
    noise = agent.draw(KEY)[1]
    present, following = (
        sample_action(half, noise, bounded)[1] for half in (outputs[:BATCH], outputs[BATCH:])
    )
    np.testing.assert_allclose(trace["log_prob"], present, rtol=1e-4, atol=1e-4)
    assert not np.allclose(trace["log_prob"], following, rtol=1e-2)


def test_parameters_stay_at_their_norms() -> None:
    agent = make(learning_rate=0.1)
    state = started(agent)
    for _ in range(2):
        for network in (state.actor, state.critics):
            layers = network.layers
            block_layers = [layer for block in layers.blocks for layer in block]
            for layer in (layers.embedding, *block_layers, layers.head):
                squares = np.sum(np.square(layer.weight), axis=-2)
                np.testing.assert_allclose(squares, 1.0, rtol=1e-4)
            for norm in (network.inputs, *(norm for norms in network.norms for norm in norms)):
                squares = np.sum(np.square(norm.scale) + np.square(norm.shift), axis=-1)
                np.testing.assert_allclose(squares, norm.scale.shape[-1], rtol=1e-4)
            np.testing.assert_allclose(np.sum(np.square(network.scale), axis=-1), 8.0, rtol=1e-4)
        state, _, _ = updated(agent, state)


@pytest.mark.parametrize("ingredient", ["categorical", "scale_rewards"])
def test_every_ingredient_has_an_effect(ingredient: str) -> None:
    def td_errors(**settings: Any) -> Array:
        agent = make(**settings)
        return updated(agent, updated(agent, started(agent))[0])[1]

    assert not np.allclose(td_errors(), td_errors(**{ingredient: False}), rtol=1e-3)


def test_its_policy_says_how_long_it_holds_its_noise() -> None:
    def arrays(**settings: Any) -> dict[str, Array]:
        agent = make(**settings)
        return agent.policy(started(agent))

    repeats = arrays()["noise_repeats"]
    assert (int(repeats), repeats.dtype) == (16, jnp.int32)
    assert "noise_repeats" not in arrays(noise_repeats=1)


def test_critics_in_a_snapshot_give_q_in_the_units_of_the_task() -> None:
    """The batch's own statistics, so that the numpy critics repeat the pass of the update."""
    agent = make()
    state = started(agent)
    after, _, trace = updated(agent, state)
    seen = jax.tree.map(
        lambda new, old: old + (new - old) / 0.01, after.critic_statistics, state.critic_statistics
    )
    arrays = jax.device_get(agent.networks(state._replace(critic_statistics=seen)))
    batch = some_sample().batch
    q = numpy_network(arrays, "critics")(np.concatenate([batch.obs, batch.action], axis=-1))
    np.testing.assert_allclose(q[..., 0], trace["q"], rtol=1e-2, atol=1e-2)


def test_blocks_are_of_its_code_where_nothing_is_said() -> None:
    agent = make_flashsac(FlashSacConfig(), SPEC, BATCH)
    state = jax.eval_shape(agent.init, KEY)
    assert [block.widening.weight.shape for block in state.actor.layers.blocks] == 2 * [(128, 512)]
    assert [block.widening.weight.shape for block in state.critics.layers.blocks] == 2 * [
        (2, 256, 1024)
    ]
