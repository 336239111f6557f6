"""PAL, prioritised approximation loss (Fujimoto et al., 2020): LAP's expected gradient from
uniform draws, at no cost of a tree: what LAP draws more often has more weight in the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.replay.base import HUBER, Replay, ReplayContext
from lfiw.replay.lap import lap_priorities
from lfiw.replay.priorities import larger_error
from lfiw.replay.uniform import UniformConfig, make_uniform
from lfiw.settings import setting


@dataclass(frozen=True)
class PalConfig:
    """Uniform, with the loss that has LAP's expected gradient (Fujimoto et al., 2020)."""

    name: ClassVar[str] = "pal"
    # its authors' code
    alpha: float = setting(0.4, "how much TD errors count", at_least=0, at_most=1)

    @classmethod
    def paper(cls) -> PalConfig:
        return cls()  # not in the paper


def pal_emphasis(td_errors: Array, alpha: float) -> Array:
    """Of each critic's rows [2, B]. Times the Huber loss it has the gradient of the authors'
    |d|^(1 + alpha) / (1 + alpha) beyond 1, and is divided by the mean over the batch as theirs."""
    td_errors = jax.lax.stop_gradient(td_errors)
    mean = jnp.mean(lap_priorities(larger_error(td_errors), alpha))
    return lap_priorities(larger_error(td_errors[None]), alpha) / mean


def make_pal(config: PalConfig, context: ReplayContext) -> Replay:
    loss = HUBER._replace(emphasis=lambda td_errors: pal_emphasis(td_errors, config.alpha))
    return make_uniform(UniformConfig(), context)._replace(td_loss=loss)
