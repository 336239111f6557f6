"""The networks that a run keeps at each fifth of its training, in plain numpy."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from lfiw.acting.networks import NumpyNetwork, below, numpy_network
from lfiw.acting.policy import as_seen
from lfiw.errors import Damaged, InputError
from lfiw.runs.files import read_arrays
from lfiw.runs.layout import parts_of, snapshot_file
from lfiw.runs.policies import load_policy


class Snapshot(NamedTuple):
    """The networks of one seed."""

    folder: str | Path
    seed: int
    arrays: dict[str, np.ndarray]

    def pairs(self, obs: np.ndarray, action: np.ndarray) -> np.ndarray:
        """What its critics and its ratio network take, from raw observations [n, D]."""
        return np.concatenate([as_seen(self.arrays, obs), action], axis=1)

    def network(self, name: str) -> NumpyNetwork:
        try:
            return numpy_network(self.arrays, name)
        except KeyError:
            raise InputError(f"The snapshot holds no {name} network.") from None

    def policy(self) -> dict[str, np.ndarray]:
        """Arrays for the numpy policy: the snapshot's in place of those of the seed's policy file,
        which knows their kind and all that does not change in training, such as noise."""
        latest = load_policy(self.folder, self.seed)
        own = {"policy": latest.unscaled.kind, "observation": "observation"}
        return latest.arrays | {
            f"{there}.{name}": array
            for here, there in own.items()
            for name, array in below(self.arrays, here).items()
        }


def load_snapshot(folder: str | Path, percent: int, seed: int) -> Snapshot:
    files = [snapshot_file(part, percent, seed) for part in parts_of(folder)]
    path = next((file for file in files if file.is_file()), None)
    if path is None:
        raise InputError(f"{folder} has no snapshot of seed {seed} at {percent} % of its training.")
    try:
        return Snapshot(folder, seed, read_arrays(path))
    except Damaged as error:
        raise InputError(str(error)) from None
