"""XQC (Palenicek et al., 2025): SAC whose critics are well-conditioned: a categorical loss, scaled
rewards, BatchNorm over present and next pairs together, weights at unit norm.

Each ingredient can be switched off; without any of them it is SAC. The default size is our own: two
layers of 256 and one update a step, where the paper's critics have four of 512 and two updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

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
from lfiw.agents.sac import sample_action
from lfiw.networks import Mlp, mlp, stacked, twins
from lfiw.networks.normed import (
    NormedMlp,
    Statistics,
    folded,
    normed_mlp,
    running,
    unit_columns,
)
from lfiw.settings import setting
from lfiw.types import SQUARES, Clock, EnvSpec, Metrics, Sample, TdLoss, Trace, anneal

STATISTICS_RATE = 0.01  # of running statistics: CrossQ's and XQC's code
# Layers of the critics and of the actor.
SIZES = {"small": ((256, 256), (256, 256)), "published": ((512,) * 4, (256,) * 4)}


@dataclass(frozen=True)
class XqcConfig:
    """SAC with well-conditioned critics (Palenicek et al., 2025)."""

    name: ClassVar[str] = "xqc"
    learning_rate: float = setting(3e-4, "Adam's at first, for all that is learned", above=0)
    learning_rate_end: float = setting(3e-5, "the same at the schedule's end", above=0)
    # SimbaV2's and XQC's code, for episodes of 1000 steps
    gamma: float = setting(0.995, "discount", at_least=0, at_most=1)
    tau: float = setting(5e-3, "smoothing of the target critics", above=0, at_most=1)
    size: Literal["small", "published"] = setting(
        "small", "small: 2 layers of 256; published: critics with 4 of 512, an actor with 4 of 256"
    )
    hidden_sizes: tuple[int, ...] | None = setting(
        None, "layers of actor and critics; none: those of its size", at_least=1
    )
    target_entropy: float | None = setting(None, "none: minus half the number of action dimensions")
    initial_alpha: float = setting(0.01, "first entropy coefficient", above=0)
    policy_delay: int = setting(
        3, "critic updates for each update of policy and entropy", at_least=1, at_most=100
    )
    categorical: bool = setting(True, "critics are distributions; else numbers, as SAC's")
    scale_rewards: bool = setting(True, "rewards are scaled by the returns met so far")
    batch_norm: bool = setting(True, "networks normalise inputs and hidden layers")
    unit_norm: bool = setting(True, "every unit's weights are kept at norm one")

    @classmethod
    def paper(cls) -> XqcConfig:
        return cls(size="published")

    @property
    def layers(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the critics and of the actor."""
        if self.hidden_sizes is not None:
            return self.hidden_sizes, self.hidden_sizes
        return SIZES[self.size]


class XqcState(NamedTuple):
    actor: NormedMlp
    critics: NormedMlp
    target_critics: NormedMlp
    log_alpha: Array  # []
    actor_statistics: Statistics
    critic_statistics: Statistics
    returns: ReturnStatistics
    actor_opt: optax.OptState
    critic_opt: optax.OptState
    alpha_opt: optax.OptState


def make_xqc(config: XqcConfig, spec: EnvSpec, batch_size: int, td_loss: TdLoss = SQUARES) -> Agent:
    critic_layers, actor_layers = config.layers
    head = categorical() if config.categorical else scalar(td_loss.of_errors)
    actor_sizes = (spec.obs_size, *actor_layers, 2 * spec.action_size)
    critic_sizes = (spec.obs_size + spec.action_size, *critic_layers, head.output_size)
    actor_network = normed_mlp(actor_sizes, config.batch_norm)
    critic_network = normed_mlp(critic_sizes, config.batch_norm)
    plain = ActorCritic(mlp(actor_sizes), mlp(critic_sizes))  # what they fold into
    optimiser = optax.scale_by_adam()
    target_entropy = (
        -spec.action_size / 2 if config.target_entropy is None else config.target_entropy
    )
    keep_norm = unit_columns if config.unit_norm else lambda parameters: parameters

    def init(key: Array) -> XqcState:
        key_actor, key_critics = jax.random.split(key)
        actor = keep_norm(actor_network.init(key_actor))
        critics = keep_norm(jax.vmap(critic_network.init)(jax.random.split(key_critics, 2)))
        log_alpha = jnp.log(jnp.asarray(config.initial_alpha, jnp.float32))
        statistics = critic_network.statistics()
        return XqcState(
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

    def observe(state: XqcState, rows: Array) -> XqcState:
        return state._replace(returns=with_rows(state.returns, rows, config.gamma, spec))

    def scale_of(state: XqcState) -> Array:
        """What rewards are divided by; all values of the critics are in these units."""
        return reward_scale(state.returns, LIMIT) if config.scale_rewards else jnp.ones(())

    def critic_loss(
        critics: NormedMlp, state: XqcState, sample: Sample, noise: Array
    ) -> tuple[Array, tuple[Array, Array, Array, Statistics]]:
        batch = sample.batch
        scale = scale_of(state)
        reward = batch.reward / scale
        actor = folded(state.actor, state.actor_statistics)
        next_action, next_log_prob = sample_action(plain.actor.apply(actor, batch.next_obs), noise)
        # One pass of both, so that both are normalised alike (CrossQ).
        obs = jnp.concatenate([batch.obs, batch.next_obs])
        pairs = jnp.concatenate([obs, jnp.concatenate([batch.action, next_action])], axis=-1)
        outputs, seen = stacked(critic_network.apply)(critics, pairs)
        target_outputs, _ = stacked(critic_network.apply)(state.target_critics, pairs)
        outputs, next_outputs = outputs[:, :batch_size], target_outputs[:, batch_size:]

        bonus = -jnp.exp(state.log_alpha) * next_log_prob
        losses = head.loss(outputs, reward, batch.discount, config.gamma, next_outputs, bonus)
        next_value = jnp.min(head.value(next_outputs), axis=0) + bonus
        q = head.value(outputs)
        td_errors = q - bellman_target(reward, batch.discount, config.gamma, next_value)
        # In the units of the task, as other agents have them.
        td_errors = scale * td_errors
        losses = td_loss.emphasis(td_errors) * losses
        return weighted_critic_loss(losses, sample.weights), (losses, td_errors, q, seen)

    def actor_loss(
        actor: NormedMlp, critics: Mlp, log_alpha: Array, sample: Sample, noise: Array
    ) -> tuple[Array, tuple[Array, Statistics]]:
        obs = sample.batch.obs
        outputs, seen = actor_network.apply(actor, obs)
        action, log_prob = sample_action(outputs, noise)
        pairs = jnp.concatenate([obs, action], axis=-1)
        q = jnp.min(head.value(twins(plain.critic).apply(critics, pairs)), axis=0)
        loss = jnp.exp(log_alpha) * log_prob - q
        return jnp.mean(sample.policy_weights * loss), (log_prob, seen)

    def draw(key: Array) -> Array:
        return jax.random.normal(key, (2, batch_size, spec.action_size))

    def update(
        state: XqcState, sample: Sample, noise: Array, clock: Clock, turn: int
    ) -> tuple[XqcState, Array, Trace]:
        rate = anneal(config.learning_rate, config.learning_rate_end, clock)
        grads, (losses, td_errors, q, seen) = jax.grad(critic_loss, has_aux=True)(
            state.critics, state, sample, noise[0]
        )
        steps, critic_opt = optimiser.update(grads, state.critic_opt)
        critics = keep_norm(descended(state.critics, steps, rate))
        scale = scale_of(state)
        state = state._replace(
            critics=critics,
            target_critics=polyak(state.target_critics, critics, config.tau),
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
        if turn == config.policy_delay - 1:
            state, of_policy = update_policy(state, sample, noise[1], rate)
            trace |= of_policy
        return state, td_errors, trace

    def update_policy(
        state: XqcState, sample: Sample, noise: Array, rate: Array | float
    ) -> tuple[XqcState, Trace]:
        critics = folded(state.critics, state.critic_statistics)
        (policy_loss, (log_prob, seen)), grads = jax.value_and_grad(actor_loss, has_aux=True)(
            state.actor, critics, state.log_alpha, sample, noise
        )
        steps, actor_opt = optimiser.update(grads, state.actor_opt)
        # d/d(log alpha) of -log_alpha * (log_prob + target_entropy)
        alpha_grad = -(jnp.mean(log_prob) + target_entropy)
        alpha_step, alpha_opt = optimiser.update(alpha_grad, state.alpha_opt)
        log_alpha = descended(state.log_alpha, alpha_step, rate)
        new_state = state._replace(
            actor=keep_norm(descended(state.actor, steps, rate)),
            actor_statistics=running(state.actor_statistics, seen, STATISTICS_RATE),
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

    def policy(state: XqcState) -> dict[str, Array]:
        return plain.actor.arrays(folded(state.actor, state.actor_statistics), "gaussian")

    def networks(state: XqcState) -> dict[str, Array]:
        actor = folded(state.actor, state.actor_statistics)
        critics = folded(state.critics, state.critic_statistics)
        if not config.categorical:
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
            spec, num_climbed=2, policy_delay=config.policy_delay, num_passed=2
        ),
        period=config.policy_delay,
        observe=observe,
    )


def descended(parameters: Any, steps: Any, rate: Array | float) -> Any:
    return jax.tree.map(lambda value, step: value - rate * step, parameters, steps)
