"""Named arrays as one vector: one transfer to the host instead of many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax import Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Packed:
    """Of one run; a batch of runs has the run axis first in `values`, and the same layout."""

    values: Array  # [total size] float32
    layout: tuple[tuple[str, tuple[int, ...]], ...] = field(metadata={"static": True})

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Packed:
        layout = tuple((name, array.shape) for name, array in arrays.items())
        parts = [array.ravel().astype(jnp.float32) for array in arrays.values()]
        return cls(jnp.concatenate([*parts, jnp.zeros(0)]), layout)

    def unpack(self) -> dict[str, Array]:
        """Views of the vector, on the device or on the host, wherever it is."""
        arrays, start = {}, 0
        for name, shape in self.layout:
            stop = start + math.prod(shape)
            arrays[name] = self.values[start:stop].reshape(shape)
            start = stop
        return arrays
