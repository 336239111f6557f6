"""The policies that a method folder keeps, one file for each seed."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from lfiw.acting.policy import NumpyPolicy, Policy
from lfiw.errors import Damaged, InputError
from lfiw.runs.files import read_arrays, save_arrays
from lfiw.runs.layout import POLICIES, parts_of, policy_file
from lfiw.settings import pick
from lfiw.types import EnvSpec

Which = Literal["latest", "best"]  # of the policies of a seed


def load_policy(folder: str | PathLike[str], seed: int = 0, which: Which = "latest") -> Policy:
    """The policy of one seed. It needs numpy and safetensors alone.

    Args:
        folder: A method folder, what `lfiw.train` returned, or a folder with `policies/` in it.
        seed: The training seed.
        which: `"latest"`, or `"best"` for the one with the best evaluation in training.

    >>> action, _ = lfiw.load_policy("runs/Pendulum-v1/sac-lfiw").predict(observation)
    """
    pick(which, POLICIES, "policy")
    folder = Path(folder)
    if not folder.exists():
        raise InputError(f"{folder} does not exist.")
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; a method folder is needed, which holds policies/.")
    files = [policy_file(part, seed, which) for part in parts_of(folder)]
    path = next((file for file in files if file.is_file()), None)
    if path is None:
        pattern = f"{POLICIES[which]}*.safetensors"
        known = sorted(other.stem for file in files for other in file.parent.glob(pattern))
        if not any(file.parent.is_dir() for file in files):
            raise InputError(
                f"{folder} has no policies/: it is no method folder, or nothing was evaluated yet."
            )
        kind = "best policy" if which == "best" else "policy"
        raise InputError(
            f"{folder} holds no {kind} of seed {seed}."
            + (f" It has: {', '.join(known)}." if known else "")
        )
    try:
        arrays = read_arrays(path)
        check_policy(arrays)
        return Policy(arrays, seed)
    except Damaged as error:
        raise InputError(str(error)) from None
    except (KeyError, ValueError, IndexError):
        raise InputError(f"{path} does not hold a policy of lfiw.") from None


def save_policies(
    folder: Path,
    policies: Mapping[int, Mapping[str, np.ndarray]],
    bounds: Mapping[str, np.ndarray],
    which: Which = "latest",
) -> None:
    """Policy files by seed, complete with the action bounds."""
    for seed, arrays in policies.items():
        save_arrays(policy_file(folder, seed, which), {**arrays, **bounds})


def check_policy(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise where the arrays are not those of one policy and its bounds."""
    policy = NumpyPolicy(arrays)
    expected = (policy.action_size,)
    obs, noise = np.zeros(policy.obs_size, np.float32), np.zeros(expected, np.float32)
    with np.errstate(all="ignore"):
        action = policy.act(obs, noise)
    if action.shape != expected:
        raise ValueError(f"an action has the shape {action.shape}")
    for name, array in arrays.items():
        if name.startswith(f"{policy.kind}.") and array.dtype != np.float32:
            raise ValueError(f"{name} has the type {array.dtype}")
    for name in ("observation.mean", "observation.std"):
        own = arrays.get(name)
        if own is not None and not (own.shape == obs.shape and own.dtype == obs.dtype):
            raise ValueError(f"{name} is {own.dtype}{own.shape}")
    for name in ("action_low", "action_high"):
        if arrays[name].shape != expected:
            raise ValueError(f"{name} has the shape {arrays[name].shape}")


def check_fits(policy: Policy, folder: str | Path, env_id: str, spec: EnvSpec) -> None:
    """An environment may have changed since a policy was trained in it."""
    if policy.unscaled.obs_size != spec.obs_size:
        raise InputError(
            f"The policies of {folder} take observations of size {policy.unscaled.obs_size}, but "
            f"{env_id} now gives {spec.obs_size}."
        )


def check_episode_seed(seed: int) -> None:
    if seed < 0:
        raise InputError(f"The seed of an episode must be at least 0, not {seed}.")
