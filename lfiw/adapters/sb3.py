"""LFIW for Stable-Baselines3: `from lfiw.adapters.sb3 import SAC` in place of its own, or
`attach(model)` for a model that exists.

The critic's loss is the mean over a batch, so that weights on its terms are weights on the
gradients of the Q-values: they are scaled there, and the agent's own `train()` does the rest.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

from lfiw.adapters.versions import require
from lfiw.errors import InputError, RunError
from lfiw.replay.lfiw import LfiwConfig
from lfiw.settings import to_json

require("lfiw.adapters.sb3", "torch")
require("lfiw.adapters.sb3", "stable-baselines3")

import stable_baselines3 as sb3  # noqa: E402
import torch  # noqa: E402
from gymnasium import spaces  # noqa: E402
from torch import Tensor  # noqa: E402

from lfiw.adapters.sb3_agent import LfiwAgent, make_estimator  # noqa: E402
from lfiw.adapters.torch import as_config  # noqa: E402


class CriticWeights:
    """A forward hook of the critic, which acts on the Q-values of the sampled actions alone."""

    def __init__(self) -> None:
        self.pending: tuple[Tensor, Tensor] | None = None  # actions and weights of a batch
        self.squared_gradients: list[Tensor] = []  # of the last batch, with weights

    def expect(self, actions: Tensor, weights: Tensor) -> None:
        self.check_used()
        self.pending = (actions, weights)

    def check_used(self) -> None:
        if self.pending is not None:
            raise RunError(
                "The critic was not called with the sampled actions, so LFIW's weights would be "
                "lost: this agent's train() is not that of SAC, TD3, DDPG or TQC."
            )

    def __call__(self, critic: Any, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        actions = args[1] if len(args) > 1 else kwargs.get("actions")
        if self.pending is None or actions is not self.pending[0]:
            return
        weights, self.pending, self.squared_gradients = self.pending[1], None, []

        def scale(gradient: Tensor) -> Tensor:
            weighted = gradient * weights.view(-1, *[1] * (gradient.dim() - 1))
            self.squared_gradients.append((weighted * gradient).sum())
            return weighted

        for values in output if isinstance(output, tuple) else (output,):
            values.register_hook(scale)


class WeightedCritic(LfiwAgent):
    """Mixed in before the class of an agent that calls `self.critic` on its batch."""

    # critic loss = loss_factor * sum over critics of mean squared error; None: another loss
    loss_factor: ClassVar[float | None] = None

    def take_weights(self, samples: Any, weights: Tensor) -> Any:
        self._critic_weights.expect(samples.actions, weights)
        return samples

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        self._critic_weights = hook = CriticWeights()
        handle = self.critic.register_forward_hook(hook, with_kwargs=True)
        try:
            super().train(gradient_steps, batch_size)
            hook.check_used()
        finally:
            handle.remove()
            del self._critic_weights
        if self.loss_factor is not None and hook.squared_gradients:
            # The agent logs its loss without weights; this is the last batch's with them.
            # A term c e^2 / B of it has the gradient 2 c e / B.
            squares = torch.stack(hook.squared_gradients).sum().item()
            self.logger.record("lfiw/critic_loss", squares * batch_size / (4 * self.loss_factor))


class SAC(WeightedCritic, sb3.SAC):
    loss_factor = 0.5


class TD3(WeightedCritic, sb3.TD3):
    loss_factor = 1.0


class DDPG(WeightedCritic, sb3.DDPG):
    loss_factor = 1.0


ADAPTED: dict[type[Any], type[Any]] = {sb3.SAC: SAC, sb3.TD3: TD3, sb3.DDPG: DDPG}


def require_contrib() -> None:
    require("lfiw.adapters.sb3.TQC", "sb3-contrib")


with suppress(ImportError, InputError):  # whoever asks for TQC then gets the sentence
    require_contrib()
    import sb3_contrib

    class TQC(WeightedCritic, sb3_contrib.TQC):
        pass

    ADAPTED[sb3_contrib.TQC] = TQC


def __getattr__(name: str) -> Any:
    if name == "TQC":
        require_contrib()
    raise AttributeError(f"module 'lfiw.adapters.sb3' has no attribute {name!r}")


def attach(model: Any, config: LfiwConfig | None = None) -> Any:
    """Give a model that exists LFIW's weights from its next update on; the same model."""
    kind = type(model)
    if isinstance(model, LfiwAgent):
        raise InputError(f"This {kind.__name__} has LFIW's weights already.")
    base = next((known for known in reversed(ADAPTED) if isinstance(model, known)), None)
    if base is None:
        discrete = not isinstance(getattr(model, "action_space", None), spaces.Box)
        reason = "discrete actions" if discrete else "no critic Q(s, a) that learns from a replay"
        names = ", ".join(known.__name__ for known in ADAPTED)
        raise InputError(f"LFIW weights the critic of {names}; {kind.__name__} has {reason}.")
    settings = to_json(as_config(config))
    estimator = make_estimator(model, settings)
    own = ADAPTED[base]
    extra = {"loss_factor": own.loss_factor}
    model.__class__ = own if kind is base else type(kind.__name__, (WeightedCritic, kind), extra)
    model.lfiw_settings, model.lfiw = settings, estimator
    return model
