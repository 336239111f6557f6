"""XQC (Palenicek et al., 2025): SAC whose critics are well-conditioned: a categorical loss, scaled
rewards, BatchNorm over present and next pairs together, weights at unit norm.

Each ingredient can be switched off; without any of them it is SAC. The default size is our own: two
layers of 256 and one update a step, where the paper's critics have four of 512 and two updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from lfiw.agents.base import Agent
from lfiw.agents.normed_sac import STATISTICS_RATE, Recipe, make_normed_sac
from lfiw.networks.normed import NormedNetwork, normed_mlp
from lfiw.settings import setting
from lfiw.types import SQUARES, EnvSpec, TdLoss, anneal

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


def make_xqc(config: XqcConfig, spec: EnvSpec, batch_size: int, td_loss: TdLoss = SQUARES) -> Agent:
    def network(inputs: int, hidden: tuple[int, ...], outputs: int) -> NormedNetwork:
        return normed_mlp((inputs, *hidden, outputs), config.batch_norm, config.unit_norm)

    critic_sizes, actor_sizes = config.layers
    recipe = Recipe(
        network=network,
        actor_sizes=actor_sizes,
        critic_sizes=critic_sizes,
        gamma=config.gamma,
        tau=config.tau,
        initial_alpha=config.initial_alpha,
        target_entropy=(
            -spec.action_size / 2 if config.target_entropy is None else config.target_entropy
        ),
        policy_delay=config.policy_delay,
        learning_rate=lambda clock: anneal(config.learning_rate, config.learning_rate_end, clock),
        categorical=config.categorical,
        scale_rewards=config.scale_rewards,
        # Its code moves them in every update, also in those that leave the policy as it is.
        policy_statistics_rate=1 - (1 - STATISTICS_RATE) ** config.policy_delay,
    )
    return make_normed_sac(recipe, spec, batch_size, td_loss)
