"""Every array structure that crosses a compiled function.

Shape letters: R runs, N ring capacity, B batch, D observation, A action.
Device code is written for one run, so no R appears here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jax import Array

Metrics = dict[str, "Array"]
Trace = dict[str, Any]  # arrays that one update leaves behind for its metrics, float32


@dataclass(frozen=True)
class EnvSpec:
    """The sizes of an environment that the networks and the ring need."""

    obs_size: int
    action_size: int

    @property
    def row_size(self) -> int:
        """Columns of a packed transition."""
        return 2 * self.obs_size + self.action_size + 2


class Transition(NamedTuple):
    """One environment step; actions are rescaled to [-1, 1]."""

    obs: Array  # [B, D]
    action: Array  # [B, A]
    reward: Array  # [B]
    discount: Array  # [B] 0 only where the episode terminated; time limits keep 1
    next_obs: Array  # [B, D] the true successor, also where the episode ended


class Sample(NamedTuple):
    """What a replay strategy hands to the agent. Weights are finite, >= 0, without gradient."""

    batch: Transition
    slots: Array  # [B] positions in the ring
    weights: Array  # [B] multiply the critic's losses
    policy_weights: Array  # [B] multiply the policy loss; ones unless asked for


class TdLoss(NamedTuple):
    """What a replay strategy has the critics minimise; each function maps [2, B] to [2, B]."""

    of_errors: Callable[[Array], Array]  # TD errors -> losses; a categorical critic has its own
    # TD errors, in the units of the task -> what multiplies the losses, without gradient
    emphasis: Callable[[Array], Array | float] = lambda td_errors: 1.0

    def __call__(self, td_errors: Array) -> Array:
        return self.emphasis(td_errors) * self.of_errors(td_errors)


SQUARES = TdLoss(of_errors=lambda td_errors: td_errors**2)


class Clock(NamedTuple):
    """Where training stands; all runs of a group share it but for the progress, as their horizons
    may differ."""

    env_steps: Array | int  # [] environment steps of each run so far
    updates: Array | int  # [] updates of each run so far
    progress: Array | float = 0.0  # [] share of the schedule's horizon that is over, at most 1


def anneal(start: float, end: float, clock: Clock) -> Array | float:
    """Linear over the schedule's horizon, then constant."""
    return start + (end - start) * clock.progress


class Columns(NamedTuple):
    """Where each field of a Transition stands in a packed row."""

    obs: slice
    action: slice
    reward: int
    discount: int
    next_obs: slice


def row_columns(spec: EnvSpec) -> Columns:
    """The layout of ring and collector."""
    obs, action = spec.obs_size, spec.action_size
    return Columns(
        obs=slice(0, obs),
        action=slice(obs, obs + action),
        reward=obs + action,
        discount=obs + action + 1,
        next_obs=slice(obs + action + 2, 2 * obs + action + 2),
    )


def unpack_rows(rows: Array, spec: EnvSpec) -> Transition:
    """Packed rows [..., row_size] as a Transition."""
    return Transition(*(rows[..., column] for column in row_columns(spec)))
