"""LFIW for TorchRL: a transform of the replay buffer that weighs what is drawn, and losses that
give the weights to the critic alone.

    buffer = TensorDictReplayBuffer(..., transform=LfiwWeights())
    loss = SACLoss(actor, qvalue)  # this module's

The transform reads transitions as they are stored: append it before any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any

from lfiw.adapters.versions import require
from lfiw.errors import InputError, RunError
from lfiw.replay.lfiw import LfiwConfig

require("lfiw.adapters.torchrl", "torchrl")

import torch  # noqa: E402
from torchrl import objectives  # noqa: E402
from torchrl.envs.transforms import Transform  # noqa: E402

from lfiw.adapters.torch import Lfiw  # noqa: E402

WEIGHT = "priority_weight"  # the key that TorchRL's losses read
LOCK = RLock()  # buffers that prefetch call their transforms from several threads


class LfiwWeights(Transform):
    """Observes what is added to the buffer and weighs each sample. State is in `state_dict`."""

    def __init__(
        self,
        config: LfiwConfig | None = None,
        *,
        obs_keys: Sequence[Any] = ("observation",),
        action_key: Any = "action",
        **settings: Any,  # of lfiw.torch.Lfiw: learning_rate, buffer_size, seed, device
    ) -> None:
        super().__init__(in_keys=[], out_keys=[])
        self.config, self.settings = config, settings
        self.obs_keys, self.action_key = tuple(obs_keys), action_key
        self.lfiw: Lfiw | None = None  # sized by the first transition

    def _inv_call(self, tensordict: Any) -> Any:
        """What goes into the buffer."""
        obs, action = self._inputs(tensordict)
        with LOCK:
            if self.lfiw is None:
                self.lfiw = self._make(obs.shape[1], action.shape[1])
            self.lfiw.observe(obs, action)
        return tensordict

    def forward(self, tensordict: Any) -> Any:
        """What comes out of it."""
        if tensordict.get(WEIGHT, None) is not None:
            raise InputError(
                "The sampler gives priority weights of its own: LFIW weights uniform draws."
            )
        if self.lfiw is None:
            raise InputError("LfiwWeights has seen no transition: add it before the data.")
        with LOCK:
            weights = self.lfiw.weights(*self._inputs(tensordict))
        tensordict.set(WEIGHT, weights.reshape(tensordict.batch_size).to(tensordict.device))
        return tensordict

    def _inputs(self, tensordict: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Observations and actions, one row each whatever the batch's axes."""
        axes = len(tensordict.batch_size)
        parts = [tensordict.get(key) for key in (*self.obs_keys, self.action_key)]
        if not parts[-1].is_floating_point():
            raise InputError(f"LFIW needs continuous actions, not {parts[-1].dtype} ones.")
        count = tensordict.batch_size.numel()
        *obs, action = (part.flatten(axes).reshape(count, -1) for part in parts)
        return torch.cat([part.float() for part in obs], dim=1), action

    def _make(self, obs_dim: int, action_dim: int) -> Lfiw:
        return Lfiw(obs_dim, action_dim, self.config, **self.settings)

    def get_extra_state(self) -> dict[str, Any]:
        lfiw = self.lfiw
        if lfiw is None:
            return {}
        return {"obs_dim": lfiw.obs_dim, "action_dim": lfiw.action_dim, "lfiw": lfiw.state_dict()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        if state:
            self.lfiw = self._make(state["obs_dim"], state["action_dim"])
            self.lfiw.load_state_dict(state["lfiw"])


class CriticOnly:
    """Mixed in before a loss, which by itself weights the actor and the entropy too."""

    in_critic = False

    def _maybe_get_priority_weight(self, tensordict: Any) -> Any:
        if not self.in_critic:
            return None
        if tensordict.get(WEIGHT, None) is None:
            raise RunError(
                "The batch has no weights: give its replay buffer transform=LfiwWeights()."
            )
        return super()._maybe_get_priority_weight(tensordict)  # type: ignore[misc]

    def weighted(self, loss: Any, tensordict: Any) -> Any:
        self.in_critic = True
        try:
            return loss(tensordict)
        finally:
            self.in_critic = False


class SACLoss(CriticOnly, objectives.SACLoss):
    def qvalue_v1_loss(self, tensordict: Any) -> Any:
        return self.weighted(super().qvalue_v1_loss, tensordict)

    def qvalue_v2_loss(self, tensordict: Any) -> Any:
        return self.weighted(super().qvalue_v2_loss, tensordict)


class TD3Loss(CriticOnly, objectives.TD3Loss):
    def value_loss(self, tensordict: Any) -> Any:
        return self.weighted(super().value_loss, tensordict)
