"""LFIW for TorchRL: a transform of the replay buffer that weighs what is drawn, and losses that
give the weights to the critic alone. `ReplaySampler` has the other strategies.

    buffer = TensorDictReplayBuffer(..., transform=LfiwWeights())
    loss = SACLoss(actor, qvalue)  # this module's

The transform reads transitions as they are stored: append it before any other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from threading import RLock
from typing import Any

from lfiw.adapters.versions import require
from lfiw.errors import InputError, RunError
from lfiw.replay.lfiw import LfiwConfig

require("lfiw.adapters.torchrl", "torchrl")

import torch  # noqa: E402
from torchrl import objectives  # noqa: E402
from torchrl.data import ReplayBuffer  # noqa: E402
from torchrl.envs.transforms import Transform  # noqa: E402

from lfiw.adapters.torch import Lfiw  # noqa: E402
from lfiw.adapters.torchrl_sampler import ReplaySampler as ReplaySampler  # noqa: E402

WEIGHT = "priority_weight"  # the key that TorchRL's losses read
LOCK = RLock()  # buffers that prefetch call their transforms from several threads


def calling_buffer() -> Any:
    """The replay buffer that is calling one of its transforms, or None. TorchRL tells a transform
    of the environment that it belongs to, but not of the buffer."""
    frame = sys._getframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, ReplayBuffer):
            return owner
        frame = frame.f_back  # type: ignore[assignment]
    return None


class LfiwWeights(Transform):
    """Observes what is added to the buffer and weighs each sample. State is in `state_dict`.

    Args:
        config: An `lfiw.LfiwConfig`; the default one if it is left out.
        obs_keys: Where observations are in a stored item.
        action_key: Where actions are.
        buffer_size: In transitions, where a stored item has several; else that of the storage.
        **settings: Of `lfiw.torch.Lfiw`: `learning_rate`, `seed`, `device`.
    """

    def __init__(
        self,
        config: LfiwConfig | None = None,
        *,
        obs_keys: Sequence[Any] = ("observation",),
        action_key: Any = "action",
        buffer_size: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(in_keys=[], out_keys=[])
        self.config, self.buffer_size, self.settings = config, buffer_size, settings
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
        buffer = calling_buffer() if self.buffer_size is None else None
        stored = None if buffer is None else len(buffer)
        with LOCK:
            weights = self.lfiw.weights(*self._inputs(tensordict), stored)
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

    def _make(self, obs_dim: int, action_dim: int, saved_size: int | None = None) -> Lfiw:
        storage = getattr(calling_buffer(), "storage", None)
        sizes = (self.buffer_size, getattr(storage, "max_size", None), saved_size)
        size = next((size for size in sizes if size is not None), None)
        if size is None:
            raise InputError(
                "LfiwWeights does not see the storage of its replay buffer here: give it "
                "buffer_size=..., the transitions that the storage can hold."
            )
        return Lfiw(obs_dim, action_dim, self.config, buffer_size=size, **self.settings)

    def get_extra_state(self) -> dict[str, Any]:
        lfiw = self.lfiw
        if lfiw is None:
            return {}
        sizes = {name: getattr(lfiw, name) for name in ("obs_dim", "action_dim", "buffer_size")}
        return {**sizes, "lfiw": lfiw.state_dict()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        if state:
            sizes = state["obs_dim"], state["action_dim"], state.get("buffer_size")
            self.lfiw = self._make(*sizes)
            self.lfiw.load_state_dict(state["lfiw"])


class CriticOnly:
    """Mixed in before a loss, which by itself weights the actor and the entropy too."""

    in_critic = False

    def _maybe_get_priority_weight(self, tensordict: Any) -> Any:
        if not self.in_critic:
            return None
        if tensordict.get(WEIGHT, None) is None:
            raise RunError(
                "The batch has no weights: give its replay buffer transform=LfiwWeights() or "
                "sampler=ReplaySampler(...)."
            )
        return super()._maybe_get_priority_weight(tensordict)  # type: ignore[misc]

    def weighted(self, loss: Any, tensordict: Any) -> Any:
        self.in_critic = True
        try:
            return loss(tensordict)
        finally:
            self.in_critic = False


class SACLoss(CriticOnly, objectives.SACLoss):
    """torchrl's SACLoss, which weights the critic's loss alone."""

    def qvalue_v1_loss(self, tensordict: Any) -> Any:
        return self.weighted(super().qvalue_v1_loss, tensordict)

    def qvalue_v2_loss(self, tensordict: Any) -> Any:
        return self.weighted(super().qvalue_v2_loss, tensordict)


class TD3Loss(CriticOnly, objectives.TD3Loss):
    """torchrl's TD3Loss, which weights the critic's loss alone. Its `td_error` is absolute, as that
    of SACLoss is; the library squares it."""

    def value_loss(self, tensordict: Any) -> Any:
        loss, metadata = self.weighted(super().value_loss, tensordict)
        return loss, {**metadata, "td_error": metadata["td_error"].detach().sqrt()}
