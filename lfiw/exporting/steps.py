"""A deterministic policy as a list of plain steps, which each format writes in its own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from lfiw.acting.networks import below
from lfiw.acting.policy import Policy
from lfiw.errors import InputError


class Linear(NamedTuple):
    """x @ weight + bias."""

    weight: np.ndarray  # [in, out]
    bias: np.ndarray  # [out]


# relu: max(x, 0); keep: x is remembered; add: x and what was kept; rms: x over the root of its mean
# square in each row.
Step = Linear | Literal["relu", "keep", "add", "rms"]


Actions = Callable[[np.ndarray], np.ndarray]  # observations [B, D] -> actions [B, A]


class Steps(NamedTuple):
    """Observations are normalised and clipped where they have statistics, and pass through the
    steps; tanh of what comes out is stretched to the bounds of the actions."""

    statistics: tuple[np.ndarray, np.ndarray] | None  # mean and standard deviation [D]
    steps: list[Step]
    low: np.ndarray  # [A]
    high: np.ndarray  # [A]

    @property
    def layers(self) -> list[Linear]:
        return [step for step in self.steps if isinstance(step, Linear)]

    @property
    def input_size(self) -> int:
        return len(self.layers[0].weight)


def steps_of(policy: Policy) -> Steps:
    arrays, kind, num_actions = policy.arrays, policy.unscaled.kind, policy.unscaled.action_size
    own = below(arrays, kind)
    first = min(own).split(".")[0]
    network = "mlp" if first.isdigit() else first
    if network not in NETWORKS:
        raise InputError(f"A policy whose network is of kind {network!r} cannot be exported.")
    body, head = NETWORKS[network](own if network == "mlp" else below(own, network))
    # Of a Gaussian the means are enough.
    means = Linear(head.weight[:, :num_actions], head.bias[:num_actions])
    mean, std = (arrays.get(f"observation.{name}") for name in ("mean", "std"))
    statistics = None if mean is None or std is None else (mean, std)
    return Steps(statistics, [*body, means], arrays["action_low"], arrays["action_high"])


def linear(arrays: Mapping[str, np.ndarray], name: str) -> Linear:
    return Linear(arrays[f"{name}.weight"], arrays[f"{name}.bias"])


def mlp_steps(arrays: Mapping[str, np.ndarray]) -> tuple[list[Step], Linear]:
    last = sum(name.endswith(".weight") for name in arrays) - 1
    body: list[Step] = []
    for index in range(last):
        body += [linear(arrays, str(index)), "relu"]
    return body, linear(arrays, str(last))


def residual_steps(arrays: Mapping[str, np.ndarray]) -> tuple[list[Step], Linear]:
    body: list[Step] = [linear(arrays, "embedding")]
    for index in range(len({name.split(".")[0] for name in arrays} - {"embedding", "head"})):
        body += ["keep", linear(arrays, f"{index}.widening"), "relu"]
        body += [linear(arrays, f"{index}.narrowing"), "relu", "add"]
    return [*body, "rms"], linear(arrays, "head")


# By kind of network, as its twins in `lfiw.acting.networks`: its arrays -> its steps up to its last
# layer, and that.
NETWORKS: dict[str, Callable[[Mapping[str, np.ndarray]], tuple[list[Step], Linear]]] = {
    "mlp": mlp_steps,
    "residual": residual_steps,
}
