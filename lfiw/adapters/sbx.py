"""LFIW and other strategies for SBX (Stable-Baselines3 in jax): `from lfiw.adapters.sbx import
SAC, TD3`.

SBX's compiled `train` hands the sampled actions to the critic's update alone, so the weights
travel as their last column. The update itself is SBX's; only the gradient of its Q-values is
scaled, which is what weights on the terms of a mean are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from lfiw.adapters.versions import require

require("lfiw.adapters.sbx", "torch")
require("lfiw.adapters.sbx", "stable-baselines3")
require("lfiw.adapters.sbx", "sbx-rl")

import jax  # noqa: E402
import sbx  # noqa: E402
import torch  # noqa: E402

from lfiw.adapters.sb3_agent import ReplayAgent  # noqa: E402
from lfiw.adapters.sb3_replay import Drawn  # noqa: E402


@jax.custom_vjp
def scale_gradient(values: jax.Array, weights: jax.Array) -> jax.Array:
    """The values themselves, with their gradient times the weights."""
    return values


scale_gradient.defvjp(
    lambda values, weights: (values, weights),
    lambda weights, gradient: (gradient * weights, None),
)


def weighted(update_critic: Callable[..., Any]) -> Callable[..., Any]:
    """SBX's update of the critic for actions whose last column is the weights."""
    plain = inspect.unwrap(update_critic)
    place = list(inspect.signature(plain).parameters).index("actions")

    def update(actor_state: Any, qf_state: Any, *args: Any) -> Any:
        others = list(args)
        column = others[place - 2]
        others[place - 2], weights = column[:, :-1], column[:, -1:]

        def apply_fn(*inputs: Any, **options: Any) -> jax.Array:
            return scale_gradient(qf_state.apply_fn(*inputs, **options), weights)

        new_state, *rest = plain(actor_state, qf_state.replace(apply_fn=apply_fn), *others)
        return new_state.replace(apply_fn=qf_state.apply_fn), *rest

    return update


class WeightColumn(ReplayAgent):
    gives_errors = False

    def critic_learning_rate(self) -> float:
        return self.initial_qf_learning_rate or super().critic_learning_rate()

    def take(self, drawn: Drawn) -> Any:
        samples, _, weights = drawn
        return samples._replace(actions=torch.cat([samples.actions, weights[:, None]], dim=1))


class SAC(WeightColumn, sbx.SAC):
    """sbx.SAC with `lfiw=LfiwConfig(...)` or `replay="recency"`, a name or a config; both may be
    left out. All other arguments are its own."""

    update_critic = staticmethod(weighted(sbx.SAC.update_critic))


class TD3(WeightColumn, sbx.TD3):
    """sbx.TD3, with the arguments of `SAC` above."""

    update_critic = staticmethod(weighted(sbx.TD3.update_critic))
