"""Where training stands, and what the phase it is in has yielded."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lfiw.acting.episodes import Episode
from lfiw.learning.group import Group
from lfiw.learning.packed import Packed

Arrays = dict[str, np.ndarray]


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
    """What a phase has yielded so far; a checkpoint may fall between its calls."""

    episodes: list[list[Episode]]
    faults: list[list[str]]
    calls: list[list[Arrays]] = field(default_factory=list)  # metrics by call, by run
    on_device: list[list[Packed]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def settle(self, group: Group, in_flight: int = 0) -> None:
        """Wait for the calls that were made, but for the newest `in_flight`, and fetch their
        metrics."""
        while len(self.on_device) > in_flight:
            self.calls.append(group.metrics(self.on_device.pop(0)))

    def facts(self) -> dict[str, Any]:
        return {"episodes": self.episodes, "faults": self.faults}

    def arrays(self, run: int) -> Arrays:
        """The metrics of one run, for a checkpoint."""
        return {
            f"phase.{index}.{name}": array
            for index, call in enumerate(self.calls)
            for name, array in call[run].items()
        }


NO_PHASE = {"episodes": None, "faults": None}  # the facts between two phases


def restored_phase(facts: Mapping[str, Any], runs: Sequence[Arrays]) -> Phase | None:
    """The phase that a checkpoint fell into, from its facts and the arrays of every run."""
    if facts["episodes"] is None:
        return None
    episodes = [[Episode(*episode) for episode in own] for own in facts["episodes"]]
    count = len({name.split(".")[1] for name in runs[0] if name.startswith("phase.")})
    calls = [[part(own, f"phase.{index}.") for own in runs] for index in range(count)]
    return Phase(episodes, facts["faults"], calls)


def part(arrays: Arrays, prefix: str) -> Arrays:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


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
