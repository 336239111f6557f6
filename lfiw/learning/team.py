"""The runs that learn in lock-step: their states, and what their updates yield."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lfiw.learning.group import Group, States
from lfiw.learning.learner import Learner, learn_together
from lfiw.learning.packed import Packed
from lfiw.types import Clock

Arrays = dict[str, np.ndarray]
Calls = list[list[Arrays]]  # metrics of a phase: by call, by run


class Place(NamedTuple):
    """Where a state is: of which group, on which of its shards."""

    group: int
    shard: int


class Team:
    """Groups that learn in lock-step. On a GPU one program updates all that a device holds, so
    that the small kernels of one group fill the gaps of another."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        with ThreadPoolExecutor(len(groups)) as threads:  # each has a program to compile
            self.states: list[States] = list(threads.map(Group.init, groups))
        self._in_flight: list[list[list[Packed]]] = []  # by call, by group, by shard
        self._calls: list[Calls] = [[] for _ in groups]
        programs: dict[tuple[Learner, ...], Any] = {}
        self._programs = []
        for places in self._places_by_program():
            learners = tuple(groups[place.group].learner for place in places)
            program = programs.setdefault(learners, _compile_learn(learners, groups[0].options))
            self._programs.append((places, program))

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

    def restore(
        self,
        index: int,
        runs: Sequence[Mapping[str, np.ndarray]],
        rows: Sequence[np.ndarray],
        num_rows: int,
        calls: Calls,
    ) -> None:
        """Put the runs of a group back: their exported states, their newest rows [n, row_size], and
        the calls of the phase that they were in."""
        self.states[index] = self.groups[index].restore(self.states[index], runs, rows, num_rows)
        self._calls[index] = calls

    def add(self, rows: Sequence[np.ndarray]) -> None:
        """Store what each group's runs collected, [R, n, row_size]; a new phase begins."""
        for index, group in enumerate(self.groups):
            self.states[index] = group.add(self.states[index], rows[index])
        self._calls = [[] for _ in self.groups]

    def learn(self, env_steps: int, updates: int) -> None:
        """Start one compiled call of updates for every run, and fetch what the calls before it
        yielded: one call ahead keeps the device busy meanwhile."""
        clock = Clock(jnp.int32(env_steps), jnp.int32(updates))
        yielded: list[dict[int, Packed]] = [{} for _ in self.groups]
        for places, program in self._programs:
            states, metrics = program(*self._arguments(places), clock)
            for place, state, own in zip(places, states, metrics, strict=True):
                self.states[place.group][place.shard] = state
                yielded[place.group][place.shard] = own
        self._in_flight.append([[own[shard] for shard in sorted(own)] for own in yielded])
        self._fetch(ahead=1)

    def _fetch(self, ahead: int = 0) -> None:
        while len(self._in_flight) > ahead:
            call = self._in_flight.pop(0)
            for calls, group, own in zip(self._calls, self.groups, call, strict=True):
                calls.append([packed.unpack() for packed in group.split(own)])

    def calls(self) -> list[Calls]:
        """The metrics of the phase so far, by group; waits for the calls in flight."""
        self._fetch()
        return self._calls

    def policies(self) -> list[list[Arrays]]:
        """The numpy policies, by group and run."""
        return [g.policies(states) for g, states in zip(self.groups, self.states, strict=True)]

    def snapshots(self, index: int) -> list[Arrays]:
        """The networks of a group, by run."""
        return self.groups[index].snapshots(self.states[index])

    def export(self) -> list[list[Arrays]]:
        """The states by group and run, but for the ring's rows, which are on disk already."""
        return [g.export(states) for g, states in zip(self.groups, self.states, strict=True)]

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
            program.lower(*self._arguments(places), clock).compile().as_text()
            for program, places in distinct.items()
        ]


def _compile_learn(learners: tuple[Learner, ...], options: dict[str, Any]) -> Any:
    return jax.jit(partial(learn_together, learners), donate_argnums=0, compiler_options=options)
