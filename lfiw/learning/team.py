"""The methods that learn in lock-step: the states of their runs, and what their updates yield."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lfiw.learning.config import TrainConfig
from lfiw.learning.group import Group, States, place_runs
from lfiw.learning.packed import Packed
from lfiw.learning.programs import Programs
from lfiw.learning.scalars import program_key, traced_settings
from lfiw.types import Clock, EnvSpec

Arrays = dict[str, np.ndarray]
Calls = list[list[Arrays]]  # metrics of a phase: by call, by run


class Seats(NamedTuple):
    """Where the runs of a method are: in which group, and which of its runs they are."""

    group: int
    runs: slice


class Place(NamedTuple):
    """Where a state is: of which group, on which of its shards."""

    group: int
    shard: int


class SavedRuns(NamedTuple):
    """What the runs of a method come back from, each list by run."""

    states: Sequence[Mapping[str, np.ndarray]]  # as they were exported
    rows: Sequence[np.ndarray]  # the newest, [n, row_size]
    calls: Calls  # of the phase that they were in


def seat(configs: Sequence[TrainConfig]) -> tuple[list[TrainConfig], list[Seats]]:
    """Methods that differ in traced settings alone share a program: their runs are one group."""
    joined: dict[str, TrainConfig] = {}
    places = []
    for config in configs:
        key = repr(program_key(config))
        before = joined[key].seeds if key in joined else ()
        joined[key] = dataclasses.replace(config, seeds=(*before, *config.seeds))
        places.append((key, slice(len(before), len(joined[key].seeds))))
    order = list(joined)
    return list(joined.values()), [Seats(order.index(key), runs) for key, runs in places]


def placement(
    configs: Sequence[TrainConfig], devices: Sequence[jax.Device]
) -> list[list[dict[str, Any]]]:
    """Which seeds of each method are on which device."""
    groups, seats = seat(configs)
    return [
        [
            {"device": str(shard.device), "seeds": list(groups[own.group].seeds[start:stop])}
            for shard in place_runs(groups[own.group], devices)
            if (start := max(shard.runs.start, own.runs.start))
            < (stop := min(shard.runs.stop, own.runs.stop))
        ]
        for own in seats
    ]


class Team:
    """Methods that learn in lock-step; arguments and results are listed by method. On a GPU one
    program updates all that a device holds, so that the small kernels of one group fill the gaps
    of another."""

    def __init__(
        self,
        configs: Sequence[TrainConfig],
        spec: EnvSpec,
        devices: Sequence[jax.Device],
        programs: Programs | None = None,
        **compiler_options: Any,
    ) -> None:
        """`programs`: those that other teams compile too."""
        programs = programs or Programs()
        joined, self._seats = seat(configs)
        scalars: list[list[dict[str, float]]] = [[] for _ in joined]
        for config, own in zip(configs, self._seats, strict=True):
            scalars[own.group] += [traced_settings(config)] * len(config.seeds)
        self.configs = configs
        self.groups = [
            Group(config, spec, devices, values, compiler_options, programs)
            for config, values in zip(joined, scalars, strict=True)
        ]
        with ThreadPoolExecutor(len(self.groups)) as threads:  # each has a program to compile
            self.states: list[States] = list(threads.map(Group.init, self.groups))
        self.in_flight: list[list[list[Packed]]] = []  # by call, by group, by shard
        self._calls: list[Calls] = [[] for _ in configs]
        self._programs = []
        for places in self._places_by_program():
            learners = tuple(self.groups[place.group].learner for place in places)
            self._programs.append((places, programs.learn(learners, self.groups[0].options)))

    def _places_by_program(self) -> list[list[Place]]:
        places = [
            Place(index, shard)
            for index, group in enumerate(self.groups)
            for shard in range(len(group.shards))
        ]
        if not self.groups[0].batched:
            return [[place] for place in places]
        by_device: dict[jax.Device, list[Place]] = {}
        for place in places:
            device = self.groups[place.group].shards[place.shard].device
            by_device.setdefault(device, []).append(place)
        return list(by_device.values())

    def restore(self, saved: Sequence[SavedRuns], num_rows: int) -> None:
        """Put all runs back to where they were after `num_rows` environment steps."""
        for index, group in enumerate(self.groups):
            own = [part for part, at in zip(saved, self._seats, strict=True) if at.group == index]
            states = [state for part in own for state in part.states]
            rows = [newest for part in own for newest in part.rows]
            self.states[index] = group.restore(self.states[index], states, rows, num_rows)
        self._calls = [part.calls for part in saved]

    def add(self, rows: Sequence[np.ndarray]) -> None:
        """Store what each method's runs collected, [R, n, row_size]; a new phase begins."""
        for index, group in enumerate(self.groups):
            own = [part for part, at in zip(rows, self._seats, strict=True) if at.group == index]
            self.states[index] = group.add(self.states[index], np.concatenate(own))
        self._calls = [[] for _ in self.configs]

    def learn(self, env_steps: int, updates: int) -> None:
        """Start one compiled call of updates for every run, and fetch what the calls before it
        yielded: one call ahead keeps the device busy meanwhile."""
        clock = Clock(jnp.int32(env_steps), jnp.int32(updates))
        yielded: list[dict[int, Packed]] = [{} for _ in self.groups]
        for places, program in self._programs:
            device = self.groups[places[0].group].shards[places[0].shard].device
            states, metrics = program(device, *self._arguments(places), clock)
            for place, state, own in zip(places, states, metrics, strict=True):
                self.states[place.group][place.shard] = state
                yielded[place.group][place.shard] = own
        self.in_flight.append([[own[shard] for shard in sorted(own)] for own in yielded])
        self._fetch(ahead=1)

    def _fetch(self, ahead: int = 0) -> None:
        while len(self.in_flight) > ahead:
            call = self.in_flight.pop(0)
            by_group = [
                [packed.unpack() for packed in group.split(own)]
                for group, own in zip(self.groups, call, strict=True)
            ]
            for calls, at in zip(self._calls, self._seats, strict=True):
                calls.append(by_group[at.group][at.runs])

    def calls(self) -> list[Calls]:
        """The metrics of the phase so far; waits for the calls in flight."""
        self._fetch()
        return self._calls

    def policies(self) -> list[list[Arrays]]:
        """The numpy policies."""
        return self._of_runs(Group.policies)

    def snapshots(self) -> list[list[Arrays]]:
        """The networks."""
        return self._of_runs(Group.snapshots)

    def export(self) -> list[list[Arrays]]:
        """The states, but for the rings' rows, which are on disk already."""
        return self._of_runs(Group.export)

    def _of_runs(self, read: Callable[[Group, States], list[Arrays]]) -> list[list[Arrays]]:
        by_group = [read(group, own) for group, own in zip(self.groups, self.states, strict=True)]
        return [by_group[at.group][at.runs] for at in self._seats]

    def _arguments(self, places: Sequence[Place]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (
            tuple(self.states[place.group][place.shard] for place in places),
            tuple(self.groups[place.group].scalars[place.shard] for place in places),
        )

    def listings(self) -> list[str]:
        """The text of the distinct compiled programs."""
        clock = Clock(jnp.int32(0), jnp.int32(0))
        distinct = {program: places for places, program in self._programs}
        return [
            str(program.jitted.lower(*self._arguments(places), clock).compile().as_text())
            for program, places in distinct.items()
        ]
