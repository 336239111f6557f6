"""The numpy twins of the networks: they act in the workers and deploy without jax.

The names of a network's arrays say its kind: `PREFIX.LAYER.weight` and `.bias` are those of an
MLP, any other kind has `PREFIX.KIND....`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

RMS_EPSILON = 1e-6  # added to mean squares; FlashSAC's code


class NumpyNetwork(Protocol):
    """Stacked parameters [2, ...], as those of twin critics, take rows [B, in] and give
    outputs [2, B, out]."""

    input_size: int
    output_size: int

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Inputs [..., in] to outputs [..., out]."""


class NumpyMlp:
    """The twin of `lfiw.networks.mlp`."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        count = sum(name.endswith(".weight") for name in arrays)
        layers = [(arrays[f"{index}.weight"], arrays[f"{index}.bias"]) for index in range(count)]
        self.input_size = size = layers[0][0].shape[-2]
        for weight, bias in layers:
            if weight.shape != (*bias.shape[:-1], size, bias.shape[-1]):
                raise ValueError(f"a layer has weights {weight.shape} and a bias {bias.shape}")
            size = bias.shape[-1]
        self.output_size = size
        *self._hidden, self._last = (
            (weight, bias if bias.ndim == 1 else bias[..., None, :]) for weight, bias in layers
        )

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        x = inputs
        for weight, bias in self._hidden:
            x = x @ weight
            x += bias
            np.maximum(x, 0, out=x)
        weight, bias = self._last
        outputs: np.ndarray = x @ weight + bias
        return outputs


class NumpyResidual:
    """The twin of `lfiw.networks.residual`."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        count = len({name.split(".")[0] for name in arrays} - {"embedding", "head"})
        self._embedding = NumpyMlp(_renamed(arrays, ["embedding"]))
        self._blocks = [
            NumpyMlp(_renamed(arrays, [f"{index}.widening", f"{index}.narrowing"]))
            for index in range(count)
        ]
        self._head = NumpyMlp(_renamed(arrays, ["head"]))
        self.input_size, self.output_size = self._embedding.input_size, self._head.output_size

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        x = self._embedding(inputs)
        for block in self._blocks:
            x = x + np.maximum(block(x), 0)
        size = np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + RMS_EPSILON)
        return self._head(x / size)


def _renamed(arrays: Mapping[str, np.ndarray], layers: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of these layers, as those of an MLP."""
    return {
        f"{index}.{name}": array
        for index, layer in enumerate(layers)
        for name, array in below(arrays, layer).items()
    }


class NumpyCategorical:
    """The twin of a critic with `lfiw.agents.categorical`: the mean of its distribution."""

    output_size = 1

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._logits = of_kind({name: arrays[name] for name in arrays if name != "atoms"})
        self._atoms = arrays["atoms"]
        self.input_size = self._logits.input_size

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        logits = self._logits(inputs)
        masses = np.exp(logits - logits.max(axis=-1, keepdims=True))
        means: np.ndarray = masses @ self._atoms / masses.sum(axis=-1)
        return means[..., None]


# By kind: arrays by their names after the prefix (and the kind) -> network.
TWINS: dict[str, Callable[[Mapping[str, np.ndarray]], NumpyNetwork]] = {
    "mlp": NumpyMlp,
    "residual": NumpyResidual,
    "categorical": NumpyCategorical,
}


def numpy_network(arrays: Mapping[str, np.ndarray], prefix: str) -> NumpyNetwork:
    """The network whose arrays have this prefix; raises `KeyError` where there is none."""
    own = below(arrays, prefix)
    if not own:
        raise KeyError(f"there is no network {prefix!r}")
    return of_kind(own)


def of_kind(arrays: Mapping[str, np.ndarray]) -> NumpyNetwork:
    """The network of all these arrays, whose names begin with its kind or, for an MLP, a layer."""
    first = min(arrays).split(".")[0]
    return NumpyMlp(arrays) if first.isdigit() else TWINS[first](below(arrays, first))


def below(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays under a prefix, by the rest of their names."""
    start = f"{prefix}."
    return {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}
