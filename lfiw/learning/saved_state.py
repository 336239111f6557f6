"""A learner's state as named arrays, and back: what a checkpoint keeps of it and how the ring,
whose rows are files of their own, is put together again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lfiw.errors import Damaged
from lfiw.replay.sum_tree import grow_tree


def ring_rows(newest: np.ndarray, num_rows: int, capacity: int) -> np.ndarray:
    """The ring's rows after `num_rows` were written, of which `newest` are the last."""
    rows = np.zeros((capacity, newest.shape[1]), np.float32)
    rows[np.arange(num_rows - len(newest), num_rows) % capacity] = newest
    return rows


def ring_counter(name: str, num_rows: int, capacity: int) -> np.ndarray | None:
    """The ring's head or size after `num_rows`: an extended run has a larger ring than the one
    that was exported, and its counters then differ."""
    if name.startswith("replay") and name.endswith(".head"):
        return np.array(num_rows % capacity, np.int32)
    if name.startswith("replay") and name.endswith(".size"):
        return np.array(min(num_rows, capacity), np.int32)
    return None


def saved_array(name: str, saved: Mapping[str, np.ndarray], capacity: int) -> np.ndarray:
    """The array itself; or, for a level of the sum tree of an extended run's larger ring, what
    the saved leaves make it: the slots of the ring stay where they were."""
    stem, _, level = name.rpartition("[")
    levels = [other for other in saved if other.startswith(f"{stem}[")]
    if stem.endswith(".tree") and levels and len(leaves := saved[max(levels)]) < capacity:
        return np.asarray(grow_tree(jnp.asarray(leaves), capacity)[int(level[:-1])])
    if name not in saved:
        raise Damaged(f"The checkpoint holds no {name}.")
    return saved[name]


def leaf_name(path: Any) -> str:
    return jax.tree_util.keystr(path).lstrip(".")


def is_rows(name: str) -> bool:
    return name.startswith("replay") and name.endswith(".rows")


def is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def to_data(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def from_data(array: Any, current: Any) -> Any:
    return jax.random.wrap_key_data(array) if is_key(current) else array
