"""What an agent is: a few pure functions over its state, written for one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.networks import Network, Parameters, twins
from lfiw.types import Clock, EnvSpec, Metrics, Sample, TdLoss, Trace


class Agent(NamedTuple):
    """Randomness is drawn apart from its use, and metrics are computed apart from the update
    that they describe: both then take one batched pass for many updates."""

    init: Callable[[Array], Any]  # key -> state
    draw: Callable[[Array], Any]  # key -> all noise of one update
    # (state, sample, noise, clock, turn) -> (state, td_errors [2, B], trace)
    update: Callable[[Any, Sample, Any, Clock, int], tuple[Any, Array, Trace]]
    metrics: Callable[[Trace], Metrics]  # of one update
    policy: Callable[[Any], dict[str, Array]]  # state -> arrays for the numpy policy
    networks: Callable[[Any], dict[str, Array]]  # state -> arrays that a snapshot keeps
    products: float  # multiplications of one update for each row of the batch
    # Updates repeat in cycles of `period`; `turn` is the static position in the cycle, so
    # a delayed policy update costs no branch on the device.
    period: int = 1
    # (state, packed rows [n, row_size]) -> state: what it keeps of transitions as they come
    observe: Callable[[Any, Array], Any] = lambda state, rows: state


class ActorCritic(NamedTuple):
    """The networks of an agent: its policy, and two critics whose parameters are stacked."""

    actor: Network
    critic: Network  # of a state-action pair

    def init(self, key: Array) -> tuple[Parameters, Parameters]:
        """Parameters of the policy and of both critics."""
        key_actor, key_critics = jax.random.split(key)
        return self.actor.init(key_actor), twins(self.critic).init(key_critics)

    def q(self, critics: Parameters, obs: Array, action: Array) -> Array:
        """Of all stacked critics, [2, B]."""
        inputs = jnp.concatenate([obs, action], axis=-1)
        return twins(self.critic).apply(critics, inputs)[..., 0]

    def arrays(self, actor: Parameters, critics: Parameters) -> dict[str, Array]:
        """What a snapshot keeps of them."""
        return self.actor.arrays(actor, "policy") | self.critic.arrays(critics, "critics")

    def products(
        self,
        spec: EnvSpec,
        num_climbed: int,
        policy_delay: int = 1,
        num_passed: int = 1,
        num_acted: int = 1,
    ) -> float:
        """Multiplications of one update for each row of the batch, where the policy climbs so
        many of the critics in every `policy_delay`-th update, and so many pairs of a row pass
        through every critic and observations through the trained policy, only one of them through
        the last layer too."""
        actor, critic = self.actor, self.critic
        critics = 2 * (
            num_passed * (critic.products + critic.trained_products)
            - (num_passed - 1) * 4 * critic.output_products
        )
        acted = num_acted * actor.trained_products - (num_acted - 1) * 3 * actor.output_products
        # The policy's gradient passes through a critic to the actions, not to the observations.
        of_obs = critic.input_products * spec.obs_size // (spec.obs_size + spec.action_size)
        climbed = num_climbed * (2 * critic.products - of_obs)
        return actor.products + critics + (acted + climbed) / policy_delay


def weighted_critic_loss(losses: Array, weights: Array) -> Array:
    """Eq. 10, summed over the critics: sum_k mean_b(weights_b * loss_kb); the paper's losses are
    squared TD errors."""
    if losses.shape[1:] != weights.shape:
        raise ValueError(f"losses {losses.shape} and weights {weights.shape} do not match")
    return jnp.sum(jnp.mean(weights * losses, axis=-1))


def bellman_target(reward: Array, discount: Array, gamma: float, next_value: Array) -> Array:
    """`discount` is 0 only where the episode terminated, so time limits bootstrap."""
    if not reward.shape == discount.shape == next_value.shape:
        raise ValueError(f"{reward.shape}, {discount.shape}, {next_value.shape} do not match")
    return jax.lax.stop_gradient(reward + gamma * discount * next_value)


def critic_metrics(trace: Trace, td_loss: TdLoss) -> Metrics:
    return {
        "critic_loss": weighted_critic_loss(td_loss(trace["td_errors"]), trace["weights"]),
        "q_mean": jnp.mean(trace["q"]),
        "td_error": jnp.mean(jnp.abs(trace["td_errors"])),
    }


def polyak(target: Any, online: Any, tau: float) -> Any:
    """Exponential average of parameters."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), target, online)
