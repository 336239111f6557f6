"""Soft Actor-Critic with twin critics and automatic entropy (Haarnoja et al., 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

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
from lfiw.networks import Parameters, mlp
from lfiw.settings import setting
from lfiw.types import SQUARES, Clock, EnvSpec, Metrics, Sample, TdLoss, Trace

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0  # rlkit


@dataclass(frozen=True)
class SacConfig:
    """Soft Actor-Critic (Haarnoja et al., 2018)."""

    name: ClassVar[str] = "sac"
    learning_rate: float = setting(
        3e-4, "Adam's, for actor, critics and entropy coefficient", above=0
    )  # paper, Table 2
    gamma: float = setting(0.99, "discount", at_least=0, at_most=1)  # paper, Table 2
    # paper, Table 2
    tau: float = setting(5e-3, "smoothing of the target critics", above=0, at_most=1)
    # rlkit
    hidden_sizes: tuple[int, ...] = setting((256, 256), "layers of actor and critics", at_least=1)
    # Haarnoja et al., 2018
    target_entropy: float | None = setting(None, "none: minus the number of action dimensions")
    initial_alpha: float = setting(1.0, "first entropy coefficient", above=0)  # rlkit

    @classmethod
    def paper(cls) -> SacConfig:
        return cls()


class SacState(NamedTuple):
    actor: Parameters
    critics: Parameters
    target_critics: Parameters
    log_alpha: Array  # []
    actor_opt: optax.OptState
    critic_opt: optax.OptState
    alpha_opt: optax.OptState


def clipped(log_std: Array) -> Array:
    return jnp.clip(log_std, LOG_STD_MIN, LOG_STD_MAX)


def sample_action(
    outputs: Array, noise: Array, log_std_of: Callable[[Array], Array] = clipped
) -> tuple[Array, Array]:
    """A tanh-Gaussian action [B, A] and its log-density [B], reparameterised by `noise`."""
    mean, second = jnp.split(outputs, 2, axis=-1)
    log_std = log_std_of(second)
    raw = mean + jnp.exp(log_std) * noise
    log_normal = -0.5 * jnp.square(noise) - log_std - 0.5 * math.log(2 * math.pi)
    # log(1 - tanh(x)^2) in a form that does not overflow
    log_slope = 2 * (math.log(2) - raw - jax.nn.softplus(-2 * raw))
    return jnp.tanh(raw), jnp.sum(log_normal - log_slope, axis=-1)


def make_sac(config: SacConfig, spec: EnvSpec, batch_size: int, td_loss: TdLoss = SQUARES) -> Agent:
    networks = ActorCritic(
        actor=mlp((spec.obs_size, *config.hidden_sizes, 2 * spec.action_size)),
        critic=mlp((spec.obs_size + spec.action_size, *config.hidden_sizes, 1)),
    )
    optimiser = optax.adam(config.learning_rate)
    target_entropy = -spec.action_size if config.target_entropy is None else config.target_entropy

    def init(key: Array) -> SacState:
        actor, critics = networks.init(key)
        log_alpha = jnp.log(jnp.asarray(config.initial_alpha, jnp.float32))
        return SacState(
            actor=actor,
            critics=critics,
            target_critics=jax.tree.map(jnp.copy, critics),
            log_alpha=log_alpha,
            actor_opt=optimiser.init(actor),
            critic_opt=optimiser.init(critics),
            alpha_opt=optimiser.init(log_alpha),
        )

    def act(actor: Parameters, obs: Array, noise: Array) -> tuple[Array, Array]:
        return sample_action(networks.actor.apply(actor, obs), noise)

    def critic_loss(
        critics: Parameters, state: SacState, sample: Sample, noise: Array
    ) -> tuple[Array, tuple[Array, Array]]:
        batch = sample.batch
        next_action, next_log_prob = act(state.actor, batch.next_obs, noise)
        next_q = jnp.min(networks.q(state.target_critics, batch.next_obs, next_action), axis=0)
        next_value = next_q - jnp.exp(state.log_alpha) * next_log_prob
        target = bellman_target(batch.reward, batch.discount, config.gamma, next_value)
        q = networks.q(critics, batch.obs, batch.action)
        td_errors = q - target
        return weighted_critic_loss(td_loss(td_errors), sample.weights), (td_errors, q)

    def actor_loss(
        actor: Parameters, critics: Parameters, log_alpha: Array, sample: Sample, noise: Array
    ) -> tuple[Array, Array]:
        action, log_prob = act(actor, sample.batch.obs, noise)
        q = jnp.min(networks.q(critics, sample.batch.obs, action), axis=0)
        loss = jnp.exp(log_alpha) * log_prob - q
        return jnp.mean(sample.policy_weights * loss), log_prob

    def draw(key: Array) -> Array:
        return jax.random.normal(key, (2, batch_size, spec.action_size))

    def update(
        state: SacState, sample: Sample, noise: Array, clock: Clock, turn: int
    ) -> tuple[SacState, Array, Trace]:
        grads, (td_errors, q) = jax.grad(critic_loss, has_aux=True)(
            state.critics, state, sample, noise[0]
        )
        steps, critic_opt = optimiser.update(grads, state.critic_opt)
        critics = optax.apply_updates(state.critics, steps)

        (policy_loss, log_prob), grads = jax.value_and_grad(actor_loss, has_aux=True)(
            state.actor, critics, state.log_alpha, sample, noise[1]
        )
        steps, actor_opt = optimiser.update(grads, state.actor_opt)
        actor = optax.apply_updates(state.actor, steps)

        # d/d(log alpha) of -log_alpha * (log_prob + target_entropy)
        alpha_grad = -(jnp.mean(log_prob) + target_entropy)
        steps, alpha_opt = optimiser.update(alpha_grad, state.alpha_opt)
        log_alpha = optax.apply_updates(state.log_alpha, steps)

        new_state = SacState(
            actor=actor,
            critics=critics,
            target_critics=polyak(state.target_critics, critics, config.tau),
            log_alpha=log_alpha,
            actor_opt=actor_opt,
            critic_opt=critic_opt,
            alpha_opt=alpha_opt,
        )
        trace = {
            "td_errors": td_errors,
            "weights": sample.weights,
            "q": q,
            "log_prob": log_prob,
            "policy_loss": policy_loss,
            "log_alpha": log_alpha,
        }
        return new_state, td_errors, trace

    def metrics(trace: Trace) -> Metrics:
        return critic_metrics(trace, td_loss) | {
            "actor_loss": trace["policy_loss"],
            "alpha": jnp.exp(trace["log_alpha"]),
            "entropy": -jnp.mean(trace["log_prob"]),
        }

    return Agent(
        init=init,
        draw=draw,
        update=update,
        metrics=metrics,
        policy=lambda state: networks.actor.arrays(state.actor, "gaussian"),
        networks=lambda state: networks.arrays(state.actor, state.critics),
        products=networks.products(spec, num_climbed=2),
    )
