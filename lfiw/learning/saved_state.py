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


def exported(state: Any) -> dict[str, Any]:
    """The leaves of a learner's state by name, but for the ring's rows."""
    leaves = {
        leaf_name(path): to_data(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    }
    return {name: leaf for name, leaf in leaves.items() if not _is_ring(name, "rows")}


def saved_leaf(
    saved: Mapping[str, np.ndarray], newest: np.ndarray, num_rows: int, capacity: int, name: str
) -> np.ndarray:
    """A leaf of one run's state, by what was exported of it and its `newest` rows. The ring of a
    run that was extended is larger than the exported one: what counts its slots differs."""
    if _is_ring(name, "rows"):
        rows = np.zeros((capacity, newest.shape[1]), np.float32)
        rows[np.arange(num_rows - len(newest), num_rows) % capacity] = newest
        return rows
    if _is_ring(name, "head"):
        return np.array(num_rows % capacity, np.int32)
    if _is_ring(name, "size"):
        return np.array(min(num_rows, capacity), np.int32)
    stem, _, level = name.rpartition("[")
    levels = [other for other in saved if other.startswith(f"{stem}[")]
    if stem.endswith(".tree") and levels and len(leaves := saved[max(levels)]) < capacity:
        return np.asarray(grow_tree(jnp.asarray(leaves), capacity)[int(level[:-1])])
    if name not in saved:
        raise Damaged(f"The checkpoint holds no {name}.")
    return saved[name]


def refuse_unknown(saved: Mapping[str, np.ndarray], state: Any) -> None:
    """A state of another version may have arrays that would silently be left out."""
    known = {leaf_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(state)}
    if unknown := sorted(saved.keys() - known):
        raise Damaged(
            f"The checkpoint holds {unknown[0]}, which this version of lfiw does not have: the run "
            f"can go on with the version that began it."
        )


def _is_ring(name: str, field: str) -> bool:
    return name.startswith("replay") and name.endswith(f".{field}")


def leaf_name(path: Any) -> str:
    return jax.tree_util.keystr(path).lstrip(".")


def is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def to_data(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def from_data(array: Any, current: Any) -> Any:
    return jax.random.wrap_key_data(array) if is_key(current) else array
