"""Groups that learn in lock-step, by one program where a GPU holds several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from lfiw.learning.group import Group
from lfiw.learning.learner import Learner, LearnerState, learn_together
from lfiw.learning.packed import Packed
from lfiw.types import Clock


class Team:
    """Groups that learn in lock-step. On a GPU one program updates all that a device holds, so
    that the small kernels of one group fill the gaps of another."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        shards = [(group, index) for group in groups for index in range(len(group.shards))]
        if groups[0].batched:
            devices = dict.fromkeys(group.shards[index].device for group, index in shards)
            parts = [
                [(group, index) for group, index in shards if group.shards[index].device == device]
                for device in devices
            ]
        else:
            parts = [[shard] for shard in shards]
        programs: dict[tuple[Learner, ...], Any] = {}
        self._parts = []
        for part in parts:
            learners = tuple(group.learner for group, _ in part)
            program = programs.setdefault(learners, _compile_learn(learners, groups[0].options))
            self._parts.append((part, program))

    def learn(self, env_steps: int, updates: int) -> list[list[Packed]]:
        """One compiled call of updates for every run: metrics by group and shard. Returns
        before it has finished."""
        clock = Clock(jnp.int32(env_steps), jnp.int32(updates))
        metrics: list[dict[int, Packed]] = [{} for _ in self.groups]
        for part, program in self._parts:
            states, seen = program(*_arguments(part), clock)
            for (group, index), state, own in zip(part, states, seen, strict=True):
                group.states[index] = state
                metrics[self.groups.index(group)][index] = own
        return [[own[index] for index in sorted(own)] for own in metrics]

    def listings(self) -> list[str]:
        """The text of the distinct compiled programs."""
        clock = Clock(jnp.int32(0), jnp.int32(0))
        distinct = {program: part for part, program in self._parts}
        return [
            program.lower(*_arguments(part), clock).compile().as_text()
            for program, part in distinct.items()
        ]


def _arguments(part: Sequence[tuple[Group, int]]) -> tuple[tuple[LearnerState, ...], Any]:
    states = tuple(group.states[index] for group, index in part)
    return states, tuple(group.scalars[index] for group, index in part)


def _compile_learn(learners: tuple[Learner, ...], options: dict[str, Any]) -> Any:
    return jax.jit(partial(learn_together, learners), donate_argnums=0, compiler_options=options)
