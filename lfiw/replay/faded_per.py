"""Faded prioritised replay (of DR.Q): LAP's priorities, faded with age down to a floor.

A transition of age k is drawn in proportion to its priority times floor^min(k / fade_steps, 1).
That is a mixture: the floor's share of all priorities, by their tree; and what the newest
`fade_steps` have above the floor, by a tree made for each draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from lfiw.replay.base import Replay, ReplayContext
from lfiw.replay.lap import LapConfig, make_lap
from lfiw.replay.priorities import Prioritised
from lfiw.replay.ring import aged_slots, unit_sample
from lfiw.replay.sum_tree import LEVELS, find_slots_of_either, total, tree_over
from lfiw.settings import setting
from lfiw.types import Clock, Sample, Trace


@dataclass(frozen=True)
class FadedPerConfig:
    """Large TD errors and the newest are drawn more often, with Huber's loss."""

    name: ClassVar[str] = "faded-per"
    alpha: float = setting(0.4, "how much priorities count", at_least=0, at_most=1)
    # Both: 0.9999^age down to 0.1, as in DR.Q's code.
    floor: float = setting(0.1, "smallest share of a priority that age leaves", above=0, at_most=1)
    fade_steps: int = setting(23_025, "age at which the floor is reached", at_least=1)

    @classmethod
    def paper(cls) -> FadedPerConfig:
        return cls()  # not in the paper


def make_faded_per(config: FadedPerConfig, context: ReplayContext) -> Replay:
    fading = jnp.arange(min(config.fade_steps, context.capacity))

    def sample(
        state: Prioritised, uniforms: Array, clock: Clock
    ) -> tuple[Prioritised, Sample, Trace]:
        ring, tree = state.ring, state.tree
        slots = aged_slots(ring, fading)
        above_floor = config.floor ** (fading / config.fade_steps) - config.floor
        newest = tree_over(tree[-1][slots] * above_floor, len(tree))
        floor_mass, newest_mass = config.floor * total(tree), total(newest)
        part, places = uniforms[0], uniforms[1:]
        of_floor = part * (floor_mass + newest_mass) < floor_mass
        found = find_slots_of_either(of_floor, tree, newest, places)
        drawn = jnp.where(of_floor, found, aged_slots(ring, found))
        return state, unit_sample(ring, drawn, context.spec), {}

    return make_lap(LapConfig(config.alpha), context)._replace(
        draw=lambda key: jax.random.uniform(key, (1 + LEVELS, context.batch_size)), sample=sample
    )
