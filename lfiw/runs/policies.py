"""The policies that a method folder keeps, one file for each seed."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import numpy as np

from lfiw.acting.policy import NumpyPolicy, Policy
from lfiw.errors import Damaged, InputError
from lfiw.runs.files import read_arrays, save_arrays
from lfiw.runs.layout import parts_of, policy_file


def load_policy(folder: str | PathLike[str], seed: int = 0) -> Policy:
    """The policy of one seed of a method folder, or of what `lfiw.train` returned."""
    folder = Path(folder)
    files = [policy_file(part, seed) for part in parts_of(folder)]
    path = next((file for file in files if file.is_file()), None)
    if path is None:
        known = sorted(
            other.stem for file in files for other in file.parent.glob("seed-*.safetensors")
        )
        raise InputError(
            f"{folder} holds no policy of seed {seed}."
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


def save_policies(
    folder: Path,
    policies: Mapping[int, Mapping[str, np.ndarray]],
    bounds: Mapping[str, np.ndarray],
) -> None:
    """Policy files by seed, complete with the action bounds."""
    for seed, arrays in policies.items():
        save_arrays(policy_file(folder, seed), {**arrays, **bounds})


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
