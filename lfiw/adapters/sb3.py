"""LFIW and the other strategies for Stable-Baselines3: `from lfiw.adapters.sb3 import SAC` in place
of its own, or `attach(model)` for a model that exists.

The critic's loss is the mean over a batch, so that weights on its terms are weights on the
gradients of the Q-values: they are scaled there, and the agent's own `train()` does the rest.
From the same gradients follow the TD errors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from lfiw.adapters.versions import require
from lfiw.errors import InputError, RunError
from lfiw.replay.lfiw import LfiwConfig

require("lfiw.adapters.sb3", "torch")
require("lfiw.adapters.sb3", "stable-baselines3")

import stable_baselines3 as sb3  # noqa: E402
import torch  # noqa: E402
from gymnasium import spaces  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn.functional import huber_loss  # noqa: E402

from lfiw.adapters.sb3_agent import ReplayAgent, make_parts, replay_settings  # noqa: E402
from lfiw.adapters.sb3_replay import Drawn  # noqa: E402

Change = Callable[[Tensor, Tensor], Tensor]  # (Q-values, their gradient) -> the gradient to take


class CriticGradients:
    """A forward hook of the critic, which acts on the Q-values of the sampled actions alone."""

    def __init__(self) -> None:
        self.pending: tuple[Tensor, Change] | None = None  # actions of a batch

    def expect(self, actions: Tensor, change: Change) -> None:
        self.check_used()
        self.pending = (actions, change)

    def check_used(self) -> None:
        if self.pending is not None:
            raise RunError(
                "The critic was not called with the sampled actions, so the replay's weights would "
                "be lost: this agent's train() is not that of SAC, TD3, DDPG or TQC."
            )

    def __call__(self, critic: Any, args: tuple, kwargs: dict[str, Any], output: Any) -> Any:
        actions = args[1] if len(args) > 1 else kwargs.get("actions")
        if self.pending is None or actions is not self.pending[0]:
            return None
        change, self.pending = self.pending[1], None
        # All critics in one, as what happens to one of them may depend on the others.
        is_tuple = isinstance(output, tuple)
        values = torch.stack(output) if is_tuple else output.transpose(0, 1)
        values.register_hook(partial(change, values.detach()))
        return values.unbind(0) if is_tuple else values.transpose(0, 1)


class WeightedCritic(ReplayAgent):
    """Mixed in before the class of an agent that calls `self.critic` on its batch."""

    # critic loss = loss_factor * sum over critics of mean squared error; None: another loss
    loss_factor: ClassVar[float | None] = None

    def take(self, drawn: Drawn) -> Any:
        if self.lfiw is not None or self.draws.strategy.needs_errors:
            change = partial(self._change, drawn)
            self._critic_gradients.expect(drawn.samples.actions, change)
        return drawn.samples

    def _change(self, drawn: Drawn, values: Tensor, gradient: Tensor) -> Tensor:
        """The gradient [C, B, ...] of the loss by the Q-values, as the replay has the loss."""
        strategy, batch_size = self.draws.strategy, gradient.shape[1]
        scale = drawn.weights.expand(len(gradient), -1)
        if self.loss_factor is not None:
            # A term c e^2 / B of the loss has the gradient 2 c e / B.
            errors = gradient[..., 0] * (batch_size / (2 * self.loss_factor))
            losses = self.loss_factor * errors**2
            if strategy.has_huber_loss:
                gradient = errors.clamp(-1, 1)[..., None] / batch_size
                losses = huber_loss(errors, torch.zeros_like(errors), reduction="none")
        elif strategy.needs_errors:
            errors = self.td_errors(drawn.samples, values)
        if strategy.needs_errors:
            scale = scale * strategy.emphasis(errors)
            strategy.feedback(drawn.slots, errors)
        if self.loss_factor is not None:
            self._critic_loss = (scale * losses).mean(dim=1).sum()
        return gradient * scale[..., None]

    def td_errors(self, samples: Any, values: Tensor) -> Tensor:
        """[C, B], where they do not follow from the gradient of the loss."""
        raise NotImplementedError

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        self._critic_gradients, self._critic_loss = CriticGradients(), None
        handle = self.critic.register_forward_hook(self._critic_gradients, with_kwargs=True)
        try:
            super().train(gradient_steps, batch_size)
            self._critic_gradients.check_used()
            if self._critic_loss is not None:
                # The agent logs the loss of its own; this is the last batch's as it was learned.
                group = "replay" if self.lfiw is None else "lfiw"
                self.logger.record(f"{group}/critic_loss", self._critic_loss.item())
        finally:
            handle.remove()
            del self._critic_gradients, self._critic_loss


class SAC(WeightedCritic, sb3.SAC):
    """stable_baselines3.SAC with `lfiw=LfiwConfig(...)` or `replay="per"`, a name or a config; both
    may be left out. All other arguments are its own."""

    loss_factor = 0.5


class TD3(WeightedCritic, sb3.TD3):
    """stable_baselines3.TD3, with the arguments of `SAC` above."""

    loss_factor = 1.0


class DDPG(WeightedCritic, sb3.DDPG):
    """stable_baselines3.DDPG, with the arguments of `SAC` above."""

    loss_factor = 1.0


ADAPTED: dict[type[Any], type[Any]] = {sb3.SAC: SAC, sb3.TD3: TD3, sb3.DDPG: DDPG}


def require_contrib() -> None:
    require("lfiw.adapters.sb3.TQC", "sb3-contrib")


with suppress(ImportError, InputError):  # whoever asks for TQC then gets the sentence
    require_contrib()
    import sb3_contrib

    class TQC(WeightedCritic, sb3_contrib.TQC):
        """Its loss is a Huber loss of quantiles, and stays."""

        @torch.no_grad()
        def td_errors(self, samples: Any, values: Tensor) -> Tensor:
            """Of the mean quantile, with a next action of its own."""
            self.actor.set_training_mode(False)
            action, log_prob = self.actor.action_log_prob(samples.next_observations)
            self.actor.set_training_mode(True)
            quantiles = self.critic_target(samples.next_observations, action).flatten(1)
            dropped = self.top_quantiles_to_drop_per_net * self.critic.n_critics
            kept = quantiles.sort(dim=1).values[:, : quantiles.shape[1] - dropped]
            coefficient = getattr(self, "ent_coef_tensor", None)
            if coefficient is None:
                coefficient = self.log_ent_coef.exp()
            next_value = kept.mean(dim=1) - coefficient * log_prob.reshape(-1)
            discounts = self.gamma if samples.discounts is None else samples.discounts.reshape(-1)
            alive = 1 - samples.dones.reshape(-1)
            target = samples.rewards.reshape(-1) + alive * discounts * next_value
            return values.mean(dim=2) - target

    ADAPTED[sb3_contrib.TQC] = TQC


def __getattr__(name: str) -> Any:
    if name == "TQC":
        require_contrib()
    raise AttributeError(f"module 'lfiw.adapters.sb3' has no attribute {name!r}")


def attach(model: Any, config: Any = None, replay: Any = None) -> Any:
    """Give a model that exists LFIW's weights, or another strategy, from its next update on.

    Args:
        model: A SAC, TD3, DDPG or TQC of the library, or of a class that extends one.
        config: An `LfiwConfig`, for LFIW; or the settings of another strategy.
        replay: Another strategy by its name or settings.

    Returns:
        The same model.
    """
    kind = type(model)
    if isinstance(model, ReplayAgent):
        has = "LFIW's weights" if model.lfiw else f"replay={model.draws.strategy.config.name!r}"
        raise InputError(f"This {kind.__name__} has {has} already.")
    base = next((known for known in reversed(ADAPTED) if isinstance(model, known)), None)
    if base is None:
        discrete = not isinstance(getattr(model, "action_space", None), spaces.Box)
        reason = "discrete actions" if discrete else "no critic Q(s, a) that learns from a replay"
        names = ", ".join(known.__name__ for known in ADAPTED)
        raise InputError(f"LFIW weights the critic of {names}; {kind.__name__} has {reason}.")
    if isinstance(config, LfiwConfig) or config is None:
        settings = replay_settings(replay, config)
    elif replay is None:
        settings = replay_settings(config, None)
    else:
        raise InputError(f"Give attach() one replay, not both {config!r} and {replay!r}.")
    lfiw, draws = make_parts(model, settings, gives_errors=True)
    own = ADAPTED[base]
    extra = {"loss_factor": own.loss_factor, "td_errors": own.td_errors}
    model.__class__ = own if kind is base else type(kind.__name__, (WeightedCritic, kind), extra)
    model.replay_settings, model.lfiw, model.draws = settings, lfiw, draws
    return model
