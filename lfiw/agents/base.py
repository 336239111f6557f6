"""What an agent is: a few pure functions over its state, written for one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.networks import Mlp
from lfiw.types import Metrics, Sample, Trace


class Agent(NamedTuple):
    """Randomness is drawn apart from its use, and metrics are computed apart from the update
    that they describe: both then take one batched pass for many updates."""

    init: Callable[[Array], Any]  # key -> state
    draw: Callable[[Array], Any]  # key -> all noise of one update
    # (state, sample, noise, turn) -> (state, td_errors [2, B], trace)
    update: Callable[[Any, Sample, Any, int], tuple[Any, Array, Trace]]
    metrics: Callable[[Trace], Metrics]  # of one update
    policy: Callable[[Any], dict[str, Array]]  # state -> arrays for the numpy policy
    networks: Callable[[Any], dict[str, Mlp]]  # state -> what a snapshot keeps
    # Updates repeat in cycles of `period`; `turn` is the static position in the cycle, so
    # a delayed policy update costs no branch on the device.
    period: int = 1


def weighted_critic_loss(td_errors: Array, weights: Array) -> Array:
    """Eq. 10, summed over the critics: sum_k mean_b(weights_b * td_kb^2)."""
    if td_errors.shape[1:] != weights.shape:
        raise ValueError(f"td_errors {td_errors.shape} and weights {weights.shape} do not match")
    return jnp.sum(jnp.mean(weights * jnp.square(td_errors), axis=-1))


def bellman_target(reward: Array, discount: Array, gamma: float, next_value: Array) -> Array:
    """`discount` is 0 only where the episode terminated, so time limits bootstrap."""
    if not reward.shape == discount.shape == next_value.shape:
        raise ValueError(f"{reward.shape}, {discount.shape}, {next_value.shape} do not match")
    return jax.lax.stop_gradient(reward + gamma * discount * next_value)


def critic_metrics(trace: Trace) -> Metrics:
    return {
        "critic_loss": weighted_critic_loss(trace["td_errors"], trace["weights"]),
        "q_mean": jnp.mean(trace["q"]),
        "td_error": jnp.mean(jnp.abs(trace["td_errors"])),
    }


def polyak(target: Any, online: Any, tau: float) -> Any:
    """Exponential average of parameters."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), target, online)
