"""Trained policies in plain numpy: they act in the workers and deploy without jax.

Each kind is the numpy twin of an agent's network; arrays are named `KIND.LAYER.weight`
and `KIND.LAYER.bias`, as the agents hand them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from lfiw.errors import Damaged, InputError
from lfiw.files import read_arrays, save_arrays
from lfiw.layout import parts_of, policy_file

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


def load_policy(run: str | PathLike[str], seed: int = 0) -> Policy:
    """The policy of one seed of a run folder, or of what `lfiw.train` returned."""
    run = Path(run)
    files = [policy_file(part, seed) for part in parts_of(run)]
    path = next((file for file in files if file.is_file()), None)
    if path is None:
        known = sorted(
            other.stem for file in files for other in file.parent.glob("seed-*.safetensors")
        )
        raise InputError(
            f"{run} holds no policy of seed {seed}."
            + (f" It has: {', '.join(known)}." if known else "")
        )
    try:
        arrays = read_arrays(path)
        check_policy(arrays)
        return Policy(arrays, arrays["action_low"], arrays["action_high"], seed)
    except Damaged as error:
        raise InputError(str(error)) from None
    except (KeyError, ValueError, IndexError, StopIteration):
        raise InputError(f"{path} does not hold a policy of lfiw.") from None


def check_policy(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise where the arrays are not those of one network and its bounds."""
    network = NumpyPolicy(arrays)
    size = network.obs_size
    for weight, bias in network.layers:
        if weight.shape != (size, *bias.shape) or {weight.dtype, bias.dtype} != {np.dtype("f4")}:
            raise ValueError(f"a layer has weights {weight.dtype}{weight.shape}")
        size = bias.shape[0]
    for name in ("action_low", "action_high"):
        if arrays[name].shape != (network.action_size,):
            raise ValueError(f"{name} has the shape {arrays[name].shape}")


def save_policies(
    folder: Path,
    policies: Mapping[int, Mapping[str, np.ndarray]],
    bounds: Mapping[str, np.ndarray],
) -> None:
    """Policy files by seed, complete with the action bounds."""
    for seed, arrays in policies.items():
        save_arrays(policy_file(folder, seed), {**arrays, **bounds})
