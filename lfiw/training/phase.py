"""Where training stands, and what the phase it is in has yielded."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lfiw.acting.episodes import Episode


class Position(NamedTuple):
    """How far training is: the same for all runs of a team."""

    env_steps: int = 0
    updates: int = 0
    phase_start: int = 0  # environment steps before the phase

    def crossed(self, every: int) -> bool:
        """Whether the last phase reached or passed a multiple of `every`."""
        return self.env_steps // every > self.phase_start // every


@dataclass
class Phase:
    """What the environments of a method's runs have yielded; a checkpoint may fall into it."""

    episodes: list[list[Episode]]  # by run
    faults: list[list[str]]
    started: float = field(default_factory=time.monotonic)


def sickness(
    policy: Mapping[str, np.ndarray], calls: Sequence[Mapping[str, np.ndarray]]
) -> str | None:
    """Why a run cannot go on after a phase: its policy or a metric of a call is not finite. An
    entry of a vector may be, such as a mean over an age of which nothing was drawn."""
    for name, array in policy.items():
        if not np.isfinite(array).all():
            return f"{name} of its policy is not finite"
    for call in calls:
        for name, value in call.items():
            if np.ndim(value) == 0 and not np.isfinite(value):
                return f"its {name} is not finite"
    return None
