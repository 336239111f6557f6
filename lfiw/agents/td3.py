"""Twin Delayed Deep Deterministic policy gradient (Fujimoto et al., 2018)."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Td3Config:
    """Twin Delayed DDPG (Fujimoto et al., 2018)."""

    name: ClassVar[str] = "td3"
    learning_rate: float = setting(1e-3, "Adam's, for actor and critics", above=0)  # Table 3
    gamma: float = setting(0.99, "discount", at_least=0, at_most=1)  # paper, Table 3
    # Without another source: Fujimoto et al., 2018.
    tau: float = setting(5e-3, "smoothing of the targets", above=0, at_most=1)
    # today's usual size
    hidden_sizes: tuple[int, ...] = setting((256, 256), "layers of actor and critics", at_least=1)
    exploration_noise: float = setting(
        0.1, "standard deviation when exploring, for actions in [-1, 1]", at_least=0
    )
    target_policy_noise: float = setting(
        0.2, "standard deviation of the target policy's noise", at_least=0
    )
    target_noise_clip: float = setting(0.5, "largest noise of the target policy", at_least=0)
    policy_delay: int = setting(
        2, "critic updates for each update of policy and targets", at_least=1, at_most=100
    )

    @classmethod
    def paper(cls) -> Td3Config:
        return cls(hidden_sizes=(400, 300), exploration_noise=1.0)  # base code; Table 3


class Td3State(NamedTuple):
    actor: Parameters
    critics: Parameters
    target_actor: Parameters
    target_critics: Parameters
    actor_opt: optax.OptState
    critic_opt: optax.OptState


def make_td3(config: Td3Config, spec: EnvSpec, batch_size: int, td_loss: TdLoss = SQUARES) -> Agent:
    networks = ActorCritic(
        actor=mlp((spec.obs_size, *config.hidden_sizes, spec.action_size)),
        critic=mlp((spec.obs_size + spec.action_size, *config.hidden_sizes, 1)),
    )
    optimiser = optax.adam(config.learning_rate)

    def init(key: Array) -> Td3State:
        actor, critics = networks.init(key)
        return Td3State(
            actor=actor,
            critics=critics,
            target_actor=jax.tree.map(jnp.copy, actor),
            target_critics=jax.tree.map(jnp.copy, critics),
            actor_opt=optimiser.init(actor),
            critic_opt=optimiser.init(critics),
        )

    def act(actor: Parameters, obs: Array) -> Array:
        return jnp.tanh(networks.actor.apply(actor, obs))

    def critic_loss(
        critics: Parameters, state: Td3State, sample: Sample, noise: Array
    ) -> tuple[Array, tuple[Array, Array]]:
        batch = sample.batch
        clip = config.target_noise_clip
        smoothing = jnp.clip(config.target_policy_noise * noise, -clip, clip)
        next_action = jnp.clip(act(state.target_actor, batch.next_obs) + smoothing, -1, 1)
        next_q = jnp.min(networks.q(state.target_critics, batch.next_obs, next_action), axis=0)
        target = bellman_target(batch.reward, batch.discount, config.gamma, next_q)
        q = networks.q(critics, batch.obs, batch.action)
        td_errors = q - target
        return weighted_critic_loss(td_loss(td_errors), sample.weights), (td_errors, q)

    def actor_loss(actor: Parameters, critics: Parameters, sample: Sample) -> Array:
        first = jax.tree.map(lambda array: array[:1], critics)
        obs = sample.batch.obs
        q = networks.q(first, obs, act(actor, obs))[0]
        return -jnp.mean(sample.policy_weights * q)

    def draw(key: Array) -> Array:
        return jax.random.normal(key, (batch_size, spec.action_size))

    def update(
        state: Td3State, sample: Sample, noise: Array, clock: Clock, turn: int
    ) -> tuple[Td3State, Array, Trace]:
        grads, (td_errors, q) = jax.grad(critic_loss, has_aux=True)(
            state.critics, state, sample, noise
        )
        steps, critic_opt = optimiser.update(grads, state.critic_opt)
        state = state._replace(
            critics=optax.apply_updates(state.critics, steps), critic_opt=critic_opt
        )
        trace = {"td_errors": td_errors, "weights": sample.weights, "q": q}
        if turn == config.policy_delay - 1:
            state, trace["policy_loss"] = update_policy_and_targets(state, sample)
        return state, td_errors, trace

    def metrics(trace: Trace) -> Metrics:
        seen = {"actor_loss": trace["policy_loss"]} if "policy_loss" in trace else {}
        return critic_metrics(trace, td_loss) | seen

    def update_policy_and_targets(state: Td3State, sample: Sample) -> tuple[Td3State, Array]:
        policy_loss, grads = jax.value_and_grad(actor_loss)(state.actor, state.critics, sample)
        steps, actor_opt = optimiser.update(grads, state.actor_opt)
        actor = optax.apply_updates(state.actor, steps)
        return state._replace(
            actor=actor,
            target_actor=polyak(state.target_actor, actor, config.tau),
            target_critics=polyak(state.target_critics, state.critics, config.tau),
            actor_opt=actor_opt,
        ), policy_loss

    def policy(state: Td3State) -> dict[str, Array]:
        noise = jnp.asarray(config.exploration_noise, jnp.float32)
        return {**networks.actor.arrays(state.actor, "deterministic"), "exploration_noise": noise}

    return Agent(
        init=init,
        draw=draw,
        update=update,
        metrics=metrics,
        policy=policy,
        networks=lambda state: networks.arrays(state.actor, state.critics),
        products=networks.products(spec, num_climbed=1, policy_delay=config.policy_delay),
        period=config.policy_delay,
    )
