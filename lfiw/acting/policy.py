"""Trained policies in plain numpy: they act in the workers and deploy without jax.

Each kind is the numpy twin of an agent's network; arrays are named `KIND.LAYER.weight`
and `KIND.LAYER.bias`, as the agents hand them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
KINDS = ("gaussian", "deterministic")


def clip(values: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """As `np.clip`, whose Python takes longer than the work on a handful of numbers."""
    clipped: np.ndarray = np.minimum(np.maximum(values, low), high)
    return clipped


class NumpyPolicy:
    """Maps observations to actions in [-1, 1]."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.kind = next(kind for kind in KINDS if f"{kind}.0.weight" in arrays)
        count = sum(name.endswith(".weight") for name in arrays)
        self.layers = [
            (arrays[f"{self.kind}.{index}.weight"], arrays[f"{self.kind}.{index}.bias"])
            for index in range(count)
        ]
        self.exploration_noise = float(arrays.get("exploration_noise", 0.0))
        self.obs_size = self.layers[0][0].shape[0]
        outputs = self.layers[-1][1].shape[0]
        self.action_size = outputs // 2 if self.kind == "gaussian" else outputs

    def outputs(self, obs: np.ndarray) -> np.ndarray:
        *hidden, last = self.layers
        x = obs
        for weight, bias in hidden:
            x = x @ weight
            x += bias
            np.maximum(x, 0, out=x)
        return x @ last[0] + last[1]

    def act(self, obs: np.ndarray, noise: np.ndarray | None = None) -> np.ndarray:
        """The deterministic action, or with standard normal `noise` the exploring one."""
        outputs = self.outputs(obs)
        if self.kind == "deterministic":
            action = np.tanh(outputs)
            if noise is not None:
                action = clip(action + self.exploration_noise * noise, -1, 1)
            return action
        mean = outputs[..., : self.action_size]
        if noise is None:
            return np.tanh(mean)
        log_std = clip(outputs[..., self.action_size :], LOG_STD_MIN, LOG_STD_MAX)
        return np.tanh(mean + np.exp(log_std) * noise)


class Policy:
    """A trained policy in the units of its environment."""

    def __init__(
        self, arrays: Mapping[str, np.ndarray], low: np.ndarray, high: np.ndarray, seed: int = 0
    ) -> None:
        self.arrays = dict(arrays)
        self.network = NumpyPolicy(arrays)
        self.low, self.high = low, high
        self._rng = np.random.default_rng(seed)

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Any]:
        """Action for one observation or a batch of them, as in Stable-Baselines3."""
        obs = np.asarray(obs, np.float32)
        if obs.shape[-1:] != (self.network.obs_size,):
            raise ValueError(
                f"The policy takes observations of size {self.network.obs_size}, "
                f"not of shape {obs.shape}."
            )
        noise = None
        if not deterministic:
            shape = (*obs.shape[:-1], self.network.action_size)
            noise = self._rng.standard_normal(shape, np.float32)
        action = self.network.act(obs, noise)
        scaled = self.low + (action + 1) * ((self.high - self.low) / 2)
        return np.clip(scaled, self.low, self.high).astype(np.float32), state


@dataclass(frozen=True)
class ActionScale:
    """The affine map between [-1, 1] and the bounds of an environment's actions."""

    low: np.ndarray
    high: np.ndarray

    @cached_property
    def half(self) -> np.ndarray:
        return (self.high - self.low) / 2

    def to_env(self, action: np.ndarray) -> np.ndarray:
        return clip(self.low + (action + 1) * self.half, self.low, self.high)
