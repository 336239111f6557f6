"""SAC on networks that normalise, with critics that may be distributions and rewards that may be
scaled: what the agents of today share. XQC and FlashSAC are recipes of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from lfiw.agents.base import (
    ActorCritic,
    Agent,
    bellman_target,
    critic_metrics,
    polyak,
    weighted_critic_loss,
)
from lfiw.agents.categorical import LIMIT, atoms, categorical, scalar
from lfiw.agents.reward_scale import ReturnStatistics, init_returns, reward_scale, with_rows
from lfiw.agents.sac import clipped, sample_action
from lfiw.networks import Parameters, stacked
from lfiw.networks.normed import NormedNetwork, Statistics, running
from lfiw.types import SQUARES, Clock, EnvSpec, Metrics, Sample, TdLoss, Trace

STATISTICS_RATE = 0.01  # of running statistics: CrossQ's, XQC's and FlashSAC's code


class Recipe(NamedTuple):
    """What sets one such agent apart from another."""

    network: Callable[[int, tuple[int, ...], int], NormedNetwork]  # inputs, hidden sizes, outputs
    actor_sizes: tuple[int, ...]
    critic_sizes: tuple[int, ...]
    gamma: float
    tau: float
    initial_alpha: float
    target_entropy: float
    policy_delay: int
    learning_rate: Callable[[Clock], Array | float]
    categorical: bool = True
    scale_rewards: bool = True
    # Whether the policy is normalised over present and next observations together, as the critics.
    joint_policy: bool = False
    policy_statistics_rate: float = STATISTICS_RATE
    policy_kind: str = "gaussian"  # of the numpy policy
    log_std_of: Callable[[Array], Array] = clipped  # network's outputs -> logarithms of deviations
    noise_repeats: int = 1  # steps for which it holds its noise at most


class NormedSacState(NamedTuple):
    actor: Parameters
    critics: Parameters
    target_critics: Parameters
    log_alpha: Array  # []
    actor_statistics: Statistics
    critic_statistics: Statistics
    returns: ReturnStatistics
    actor_opt: optax.OptState
    critic_opt: optax.OptState
    alpha_opt: optax.OptState


def make_normed_sac(
    recipe: Recipe, spec: EnvSpec, batch_size: int, td_loss: TdLoss = SQUARES
) -> Agent:
    head = categorical() if recipe.categorical else scalar(td_loss.of_errors)
    actor_network = recipe.network(spec.obs_size, recipe.actor_sizes, 2 * spec.action_size)
    critic_network = recipe.network(
        spec.obs_size + spec.action_size, recipe.critic_sizes, head.output_size
    )
    plain = ActorCritic(actor_network.plain, critic_network.plain)  # what they fold into
    optimiser = optax.scale_by_adam()
    present = slice(batch_size)  # of present and next rows

    @stacked
    def of_fixed_critics(critics: tuple[Parameters, Statistics], pairs: Array) -> Array:
        parameters, statistics = critics
        return critic_network.fixed(parameters, statistics, pairs)

    def init(key: Array) -> NormedSacState:
        key_actor, key_critics = jax.random.split(key)
        actor = actor_network.projected(actor_network.init(key_actor))
        critics = critic_network.projected(
            jax.vmap(critic_network.init)(jax.random.split(key_critics, 2))
        )
        log_alpha = jnp.log(jnp.asarray(recipe.initial_alpha, jnp.float32))
        statistics = critic_network.statistics()
        return NormedSacState(
            actor=actor,
            critics=critics,
            target_critics=jax.tree.map(jnp.copy, critics),
            log_alpha=log_alpha,
            actor_statistics=actor_network.statistics(),
            critic_statistics=jax.tree.map(lambda one: jnp.stack([one, one]), statistics),
            returns=init_returns(),
            actor_opt=optimiser.init(actor),
            critic_opt=optimiser.init(critics),
            alpha_opt=optimiser.init(log_alpha),
        )

    def observe(state: NormedSacState, rows: Array) -> NormedSacState:
        return state._replace(returns=with_rows(state.returns, rows, recipe.gamma, spec))

    def scale_of(state: NormedSacState) -> Array:
        """What rewards are divided by; all values of the critics are in these units."""
        return reward_scale(state.returns, LIMIT) if recipe.scale_rewards else jnp.ones(())

    def folded_actor(state: NormedSacState) -> Parameters:
        return actor_network.folded(state.actor, state.actor_statistics)

    def folded_critics(state: NormedSacState) -> Parameters:
        return critic_network.folded(state.critics, state.critic_statistics)

    def critic_loss(
        critics: Parameters, state: NormedSacState, sample: Sample, noise: Array
    ) -> tuple[Array, tuple[Array, Array, Array, Statistics]]:
        batch = sample.batch
        scale = scale_of(state)
        reward = batch.reward / scale
        next_outputs = actor_network.fixed(state.actor, state.actor_statistics, batch.next_obs)
        next_action, next_log_prob = sample_action(next_outputs, noise, recipe.log_std_of)
        # One pass of both, so that both are normalised alike (CrossQ).
        obs = jnp.concatenate([batch.obs, batch.next_obs])
        pairs = jnp.concatenate([obs, jnp.concatenate([batch.action, next_action])], axis=-1)
        of_present = stacked(partial(critic_network.apply, rows=present))
        of_next = stacked(partial(critic_network.apply, rows=slice(batch_size, None)))
        outputs, seen = of_present(critics, pairs)
        next_outputs, _ = of_next(state.target_critics, pairs)

        bonus = -jnp.exp(state.log_alpha) * next_log_prob
        losses = head.loss(outputs, reward, batch.discount, recipe.gamma, next_outputs, bonus)
        next_value = jnp.min(head.value(next_outputs), axis=0) + bonus
        q = head.value(outputs)
        td_errors = q - bellman_target(reward, batch.discount, recipe.gamma, next_value)
        # In the units of the task, as other agents have them.
        td_errors = scale * td_errors
        losses = td_loss.emphasis(td_errors) * losses
        return weighted_critic_loss(losses, sample.weights), (losses, td_errors, q, seen)

    def actor_loss(
        actor: Parameters, state: NormedSacState, sample: Sample, noise: Array
    ) -> tuple[Array, tuple[Array, Statistics]]:
        obs = sample.batch.obs
        if recipe.joint_policy:
            both = jnp.concatenate([obs, sample.batch.next_obs])
            outputs, seen = actor_network.apply(actor, both, present)
        else:
            outputs, seen = actor_network.apply(actor, obs)
        action, log_prob = sample_action(outputs, noise, recipe.log_std_of)
        pairs = jnp.concatenate([obs, action], axis=-1)
        critics = (state.critics, state.critic_statistics)
        q = jnp.min(head.value(of_fixed_critics(critics, pairs)), axis=0)
        loss = jnp.exp(state.log_alpha) * log_prob - q
        return jnp.mean(sample.policy_weights * loss), (log_prob, seen)

    def draw(key: Array) -> Array:
        return jax.random.normal(key, (2, batch_size, spec.action_size))

    def update(
        state: NormedSacState, sample: Sample, noise: Array, clock: Clock, turn: int
    ) -> tuple[NormedSacState, Array, Trace]:
        rate = recipe.learning_rate(clock)
        grads, (losses, td_errors, q, seen) = jax.grad(critic_loss, has_aux=True)(
            state.critics, state, sample, noise[0]
        )
        steps, critic_opt = optimiser.update(grads, state.critic_opt)
        critics = critic_network.projected(descended(state.critics, steps, rate))
        scale = scale_of(state)
        state = state._replace(
            critics=critics,
            target_critics=polyak(state.target_critics, critics, recipe.tau),
            critic_statistics=running(state.critic_statistics, seen, STATISTICS_RATE),
            critic_opt=critic_opt,
        )
        trace = {
            "losses": losses,
            "td_errors": td_errors,
            "weights": sample.weights,
            "q": scale * q,
            "reward_scale": scale,
        }
        if turn == recipe.policy_delay - 1:
            # Its schedule counts its own updates: XQC's and FlashSAC's code.
            own_clock = clock._replace(progress=clock.progress / recipe.policy_delay)
            rate = recipe.learning_rate(own_clock)
            state, of_policy = update_policy(state, sample, noise[1], rate)
            trace |= of_policy
        return state, td_errors, trace

    def update_policy(
        state: NormedSacState, sample: Sample, noise: Array, rate: Array | float
    ) -> tuple[NormedSacState, Trace]:
        (policy_loss, (log_prob, seen)), grads = jax.value_and_grad(actor_loss, has_aux=True)(
            state.actor, state, sample, noise
        )
        steps, actor_opt = optimiser.update(grads, state.actor_opt)
        # d/d(log alpha) of -log_alpha * (log_prob + target_entropy)
        alpha_grad = -(jnp.mean(log_prob) + recipe.target_entropy)
        alpha_step, alpha_opt = optimiser.update(alpha_grad, state.alpha_opt)
        log_alpha = descended(state.log_alpha, alpha_step, rate)
        new_state = state._replace(
            actor=actor_network.projected(descended(state.actor, steps, rate)),
            actor_statistics=running(state.actor_statistics, seen, recipe.policy_statistics_rate),
            log_alpha=log_alpha,
            actor_opt=actor_opt,
            alpha_opt=alpha_opt,
        )
        return new_state, {
            "log_prob": log_prob,
            "policy_loss": policy_loss,
            "log_alpha": log_alpha,
        }

    def metrics(trace: Trace) -> Metrics:
        of_critics = critic_metrics(trace, td_loss) | {
            "critic_loss": weighted_critic_loss(trace["losses"], trace["weights"]),
            "reward_scale": trace["reward_scale"],
        }
        if "policy_loss" not in trace:
            return of_critics
        return of_critics | {
            "actor_loss": trace["policy_loss"],
            "alpha": jnp.exp(trace["log_alpha"]),
            "entropy": -jnp.mean(trace["log_prob"]),
        }

    def policy(state: NormedSacState) -> dict[str, Array]:
        arrays = plain.actor.arrays(folded_actor(state), recipe.policy_kind)
        if recipe.noise_repeats > 1:
            arrays["noise_repeats"] = jnp.asarray(recipe.noise_repeats, jnp.int32)
        return arrays

    def networks(state: NormedSacState) -> dict[str, Array]:
        actor, critics = folded_actor(state), folded_critics(state)
        if not recipe.categorical:
            return plain.arrays(actor, critics)
        return {
            **plain.actor.arrays(actor, "policy"),
            **plain.critic.arrays(critics, "critics.categorical"),
            "critics.categorical.atoms": scale_of(state)[..., None] * atoms(),
        }

    return Agent(
        init=init,
        draw=draw,
        update=update,
        metrics=metrics,
        policy=policy,
        networks=networks,
        products=plain.products(
            spec,
            num_climbed=2,
            policy_delay=recipe.policy_delay,
            num_passed=2,
            num_acted=2 if recipe.joint_policy else 1,
        ),
        period=recipe.policy_delay,
        observe=observe,
    )


def descended(parameters: Any, steps: Any, rate: Array | float) -> Any:
    return jax.tree.map(lambda value, step: value - rate * step, parameters, steps)
