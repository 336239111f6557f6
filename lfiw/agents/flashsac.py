"""FlashSAC (2026): SAC on residual networks with BatchNorm, whose weights are at unit norm, with a
categorical loss, scaled rewards and exploration noise that is held for several steps.

Its code goes with batches of 512 and 10,000 steps before the first update; both are settings of the
training, not of the agent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from lfiw.agents.base import Agent
from lfiw.agents.normed_sac import Recipe, make_normed_sac
from lfiw.networks.normed import NormedNetwork
from lfiw.networks.residual import normed_residual
from lfiw.settings import setting
from lfiw.types import SQUARES, Clock, EnvSpec, TdLoss

# Blocks of the critics and of the actor.
SIZES = ((256, 256), (128, 128))
LOG_STD_MIN, LOG_STD_MAX = -10.0, 2.0
TARGET_STD = 0.15  # the entropy target is that of a normal distribution so wide


@dataclass(frozen=True)
class FlashSacConfig:
    """SAC on residual networks with BatchNorm (FlashSAC, 2026)."""

    name: ClassVar[str] = "flashsac"
    # Its code, as all that follows.
    learning_rate: float = setting(3e-4, "Adam's at first, for all that is learned", above=0)
    learning_rate_end: float = setting(1.5e-4, "the same at the schedule's end", above=0)
    gamma: float = setting(0.99, "discount", at_least=0, at_most=1)
    tau: float = setting(0.01, "smoothing of the target critics", above=0, at_most=1)
    hidden_sizes: tuple[int, ...] | None = setting(
        None, "blocks of actor and critics; none: 2 of 128 and 2 of 256", at_least=1
    )
    target_entropy: float | None = setting(
        None, "none: -0.478 times the number of action dimensions"
    )
    initial_alpha: float = setting(0.01, "first entropy coefficient", above=0)
    policy_delay: int = setting(
        2, "critic updates for each update of policy and entropy", at_least=1, at_most=100
    )
    noise_repeats: int = setting(
        16, "most steps for which exploration noise is held; 1: it is not", at_least=1, at_most=1000
    )
    categorical: bool = setting(True, "critics are distributions; else numbers, as SAC's")
    scale_rewards: bool = setting(True, "rewards are scaled by the returns met so far")

    @classmethod
    def paper(cls) -> FlashSacConfig:
        return cls()


def make_flashsac(
    config: FlashSacConfig, spec: EnvSpec, batch_size: int, td_loss: TdLoss = SQUARES
) -> Agent:
    def network(inputs: int, hidden: tuple[int, ...], outputs: int) -> NormedNetwork:
        return normed_residual((inputs, *hidden, outputs))

    own_sizes = config.hidden_sizes
    critic_sizes, actor_sizes = SIZES if own_sizes is None else (own_sizes, own_sizes)
    entropy_of_dimension = math.log(2 * math.pi * math.e * TARGET_STD**2) / 2
    recipe = Recipe(
        network=network,
        actor_sizes=actor_sizes,
        critic_sizes=critic_sizes,
        gamma=config.gamma,
        tau=config.tau,
        initial_alpha=config.initial_alpha,
        target_entropy=(
            entropy_of_dimension * spec.action_size
            if config.target_entropy is None
            else config.target_entropy
        ),
        policy_delay=config.policy_delay,
        learning_rate=lambda clock: cosine(config.learning_rate, config.learning_rate_end, clock),
        categorical=config.categorical,
        scale_rewards=config.scale_rewards,
        joint_policy=True,
        policy_kind="bounded-gaussian",
        log_std_of=bounded,
        noise_repeats=config.noise_repeats,
    )
    return make_normed_sac(recipe, spec, batch_size, td_loss)


def cosine(start: float, end: float, clock: Clock) -> Array | float:
    """Half a wave from the start to the end over the schedule's horizon, then constant."""
    return end + (start - end) * (1 + jnp.cos(jnp.pi * clock.progress)) / 2


def bounded(outputs: Array) -> Array:
    """Logarithms of deviations: `BoundedGaussian`'s twin."""
    share = (1 + jnp.tanh(outputs)) / 2
    return LOG_STD_MIN + (LOG_STD_MAX - LOG_STD_MIN) * share
