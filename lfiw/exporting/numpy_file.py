"""A policy as plain arrays in an .npz file."""

from __future__ import annotations

import io

import numpy as np

from lfiw.acting.networks import RMS_EPSILON
from lfiw.acting.policy import OBS_CLIP
from lfiw.exporting.steps import Actions, Linear, Steps


def encode(policy: Steps) -> bytes:
    arrays = {"action_low": policy.low, "action_high": policy.high}
    if policy.statistics is not None:
        arrays |= zip(("observation_mean", "observation_std"), policy.statistics, strict=True)
    names = ["linear" if isinstance(step, Linear) else step for step in policy.steps]
    arrays["steps"] = np.array(names)
    for index, layer in enumerate(policy.layers):
        arrays |= {f"{name}_{index}": array for name, array in layer._asdict().items()}
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]  # numpy's stub has its own options in mind
    return file.getvalue()


def decode(content: bytes) -> Actions:
    """The lines of docs/guides/deploy.md, with no function of ours."""
    file = np.load(io.BytesIO(content), allow_pickle=False)

    def act(obs: np.ndarray) -> np.ndarray:
        x, layer = obs, 0
        if "observation_mean" in file:
            x = (x - file["observation_mean"]) / file["observation_std"]
            x = np.clip(x, -OBS_CLIP, OBS_CLIP)
        for step in file["steps"]:
            if step == "linear":
                x = x @ file[f"weight_{layer}"] + file[f"bias_{layer}"]
                layer += 1
            elif step == "relu":
                x = np.maximum(x, 0)
            elif step == "keep":
                kept = x
            elif step == "add":
                x = x + kept
            elif step == "rms":
                x = x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + RMS_EPSILON)
        low, high = file["action_low"], file["action_high"]
        actions: np.ndarray = np.clip(low + (np.tanh(x) + 1) * (high - low) / 2, low, high)
        return actions

    return act
