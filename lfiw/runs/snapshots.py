"""The networks that a run keeps at each fifth of its training, in plain numpy."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from lfiw.errors import InputError
from lfiw.runs.layout import parts_of, snapshot_file

Layers = list[tuple[np.ndarray, np.ndarray]]  # weight [..., in, out] and bias [..., out]


class Snapshot(NamedTuple):
    """The networks of one seed."""

    arrays: dict[str, np.ndarray]

    def network(self, name: str) -> Layers:
        count = sum(key.startswith(f"{name}.") and key.endswith(".weight") for key in self.arrays)
        if not count:
            raise InputError(f"The snapshot holds no {name} network.")
        parts = [(f"{name}.{index}.weight", f"{name}.{index}.bias") for index in range(count)]
        return [(self.arrays[weight], self.arrays[bias]) for weight, bias in parts]

    def policy(self, exploration_noise: float = 0.0) -> dict[str, np.ndarray]:
        """Arrays for the numpy policy; the noise is that of a deterministic one."""
        layers = self.network("policy")
        gaussian = layers[-1][1].shape[-1] == 2 * self.arrays["action_low"].size
        kind = "gaussian" if gaussian else "deterministic"
        arrays = {"exploration_noise": np.array(exploration_noise, np.float32)}
        for index, (weight, bias) in enumerate(layers):
            arrays |= {f"{kind}.{index}.weight": weight, f"{kind}.{index}.bias": bias}
        return arrays


def apply_layers(layers: Layers, x: np.ndarray) -> np.ndarray:
    """The numpy twin of `networks.apply_mlp`: leading axes of the weights are batched."""
    *hidden, (last_weight, last_bias) = layers
    for weight, bias in hidden:
        x = np.maximum(x @ weight + bias[..., None, :], 0)
    return x @ last_weight + last_bias[..., None, :]


def load_snapshot(folder: str | Path, percent: int, seed: int) -> Snapshot:
    files = [snapshot_file(part, percent, seed) for part in parts_of(folder)]
    path = next((file for file in files if file.is_file()), None)
    if path is None:
        raise InputError(f"{folder} has no snapshot of seed {seed} at {percent} % of its training.")
    try:
        return Snapshot(load_file(path))
    except SafetensorError as error:
        raise InputError(f"{path} is damaged: {error}") from None
