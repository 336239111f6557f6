"""Trained policies in plain numpy: they act in the workers and deploy without jax.

A policy is a network and a head, which says what the network's outputs mean. Its arrays are those
of the network, with the head's name as their prefix, what else the head needs and, where a run
normalised its observations, their mean and standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from lfiw.acting.networks import numpy_network

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
BOUNDED_LOG_STD_MIN = -10.0  # FlashSAC's code
OBS_CLIP = 10.0  # in standard deviations


def clip(values: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """As `np.clip`, whose Python takes longer than the work on a handful of numbers."""
    clipped: np.ndarray = np.minimum(np.maximum(values, low), high)
    return clipped


class Head(Protocol):
    """Turns a network's outputs into actions in [-1, 1]."""

    outputs_per_action: int

    def act(self, outputs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        """The deterministic action, or with standard normal `noise` the exploring one."""

    def log_density(self, outputs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Of the exploring action, summed over its parts; zeros where there is none."""


class Gaussian:
    """A normal distribution squashed by tanh: means, then logarithms of deviations."""

    outputs_per_action = 2

    def act(self, outputs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        if noise is None:
            return np.tanh(outputs[..., : outputs.shape[-1] // 2])
        mean, log_std = self.split(outputs)
        return np.tanh(mean + np.exp(log_std) * noise)

    def log_density(self, outputs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        mean, log_std = self.split(outputs)
        raw = mean + np.exp(log_std) * noise
        log_normal = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
        log_slope = 2 * (math.log(2) - raw - np.logaddexp(0, -2 * raw))  # log(1 - tanh(raw)^2)
        return np.sum(log_normal - log_slope, axis=-1)

    def split(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        half = outputs.shape[-1] // 2
        return outputs[..., :half], clip(outputs[..., half:], LOG_STD_MIN, LOG_STD_MAX)


class BoundedGaussian(Gaussian):
    """The same, where tanh keeps the logarithms of deviations within their bounds."""

    def split(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        half = outputs.shape[-1] // 2
        share = (1 + np.tanh(outputs[..., half:])) / 2
        log_std = BOUNDED_LOG_STD_MIN + (LOG_STD_MAX - BOUNDED_LOG_STD_MIN) * share
        return outputs[..., :half], log_std


@dataclass(frozen=True)
class Deterministic:
    """Squashed by tanh; it explores with additive noise, within the bounds."""

    exploration_noise: float
    outputs_per_action = 1

    def act(self, outputs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        action = np.tanh(outputs)
        return action if noise is None else clip(action + self.exploration_noise * noise, -1, 1)

    def log_density(self, outputs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return np.zeros(outputs.shape[:-1], outputs.dtype)


# By kind, which is the prefix of the network's arrays: all arrays -> head.
HEADS: dict[str, Callable[[Mapping[str, np.ndarray]], Head]] = {
    "gaussian": lambda arrays: Gaussian(),
    "bounded-gaussian": lambda arrays: BoundedGaussian(),
    "deterministic": lambda arrays: Deterministic(float(arrays.get("exploration_noise", 0.0))),
}


def as_seen(arrays: Mapping[str, np.ndarray], obs: np.ndarray) -> np.ndarray:
    """Raw observations [..., D] as the networks of these arrays see them: the twin of `normalised`
    in lfiw.replay.observations."""
    if "observation.mean" not in arrays:
        return obs
    return clip((obs - arrays["observation.mean"]) / arrays["observation.std"], -OBS_CLIP, OBS_CLIP)


class NumpyPolicy:
    """Maps raw observations to actions in [-1, 1]."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        (self.kind,) = HEADS.keys() & {name.split(".")[0] for name in arrays}
        self._arrays = arrays
        self._head = HEADS[self.kind](arrays)
        self._network = numpy_network(arrays, self.kind)
        self.obs_size = self._network.input_size
        self.action_size = self._network.output_size // self._head.outputs_per_action

    def act(self, obs: np.ndarray, noise: np.ndarray | None = None) -> np.ndarray:
        """The deterministic action, or with standard normal `noise` the exploring one."""
        return self._head.act(self._network(as_seen(self._arrays, obs)), noise)

    def log_density(self, obs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Of the exploring action; zeros where the policy has none."""
        return self._head.log_density(self._network(as_seen(self._arrays, obs)), noise)


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


class Policy:
    """A trained policy in the units of its environment, from the arrays of its file."""

    def __init__(self, arrays: Mapping[str, np.ndarray], seed: int = 0) -> None:
        self.arrays = dict(arrays)
        self.unscaled = NumpyPolicy(arrays)
        self.scale = ActionScale(arrays["action_low"], arrays["action_high"])
        self._rng = np.random.default_rng(seed)

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Any]:
        """Action for one observation or a batch of them, as in Stable-Baselines3.

        Args:
            obs: Raw observations, `[D]` or `[B, D]`.
            state: Returned as it is; these policies have no memory.
            episode_start: Not used.
            deterministic: False explores as in training.

        Returns:
            Actions in the units of the environment, float32, and `state`.
        """
        obs = np.asarray(obs, np.float32)
        if obs.shape[-1:] != (self.unscaled.obs_size,):
            raise ValueError(
                f"The policy takes observations of size {self.unscaled.obs_size}, "
                f"not of shape {obs.shape}."
            )
        noise = None
        if not deterministic:
            shape = (*obs.shape[:-1], self.unscaled.action_size)
            noise = self._rng.standard_normal(shape, np.float32)
        action = self.unscaled.act(obs, noise)
        return self.scale.to_env(action).astype(np.float32), state
