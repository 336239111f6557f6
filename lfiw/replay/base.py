"""What a replay strategy is: a few pure functions over its state, written for one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import optax
from jax import Array

from lfiw.replay.ring import Ring, init_ring
from lfiw.types import SQUARES, Clock, EnvSpec, Metrics, Sample, TdLoss, Trace

HUBER = TdLoss(of_errors=optax.huber_loss)


@dataclass(frozen=True)
class ReplayContext:
    """What a strategy needs to know of the rest of the configuration."""

    spec: EnvSpec
    capacity: int  # slots of the ring
    buffer_size: int  # the configured size, which a short run never fills
    batch_size: int
    agent_learning_rate: float
    normalize_observations: bool = False
    updates_per_env_step: float = 1.0

    def empty_ring(self) -> Ring:
        return init_ring(self.capacity, self.spec, self.normalize_observations)


class Replay(NamedTuple):
    """As for agents, randomness is drawn and metrics are computed apart from the update."""

    init: Callable[[Array], Any]  # key -> state
    add: Callable[[Any, Array], Any]  # (state, packed rows [n, row_size]) -> state
    draw: Callable[[Array], Any]  # key -> all noise of one sample
    # (state, noise, clock) -> (state, sample, trace)
    sample: Callable[[Any, Any, Clock], tuple[Any, Sample, Trace]]
    feedback: Callable[[Any, Sample, Array], Any]  # (state, sample, td_errors [2, B]) -> state
    metrics: Callable[[Trace], Metrics] = lambda trace: dict(trace)  # of one update
    is_uniform: bool = False  # every stored transition is as likely in a batch
    ring: Callable[[Any], Ring] = lambda state: state
    networks: Callable[[Any], dict[str, Array]] = lambda state: {}  # arrays of a snapshot
    products: float = 0  # multiplications of one update for each row of the batch
    td_loss: TdLoss = SQUARES  # what the agent's critics minimise


def no_feedback(state: Any, sample: Sample, td_errors: Array) -> Any:
    return state
