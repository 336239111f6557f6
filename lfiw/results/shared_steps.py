"""Curves of other libraries' logs at common environment steps: their lengths and steps differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from lfiw.errors import InputError
from lfiw.results.curves import Curves
from lfiw.results.foreign import Run
from lfiw.results.foreign_logs import EPISODES, EVALUATIONS, Log
from lfiw.wording import one_line

# As Stable-Baselines3's own `rollout/ep_rew_mean` and plots have it.
EPISODES_IN_MEAN = 100
MAX_POINTS = 100  # of a curve whose steps are not those of the others
CUT_SHORT = 1.05  # times as long as it is compared: worth a sentence


def common_steps(
    runs: Sequence[Run], others: Sequence[np.ndarray] = (), env_steps: int | None = None
) -> np.ndarray:
    """The environment steps at which all runs of a task are compared, from the last of their first
    returns to the first of their last ones: the steps of `others`, which are evaluations that are
    not to be moved; else those of the run with the fewest, if all have them; else even ones, as
    many as that run has."""
    first = max(runs, key=lambda run: run.log.env_steps[0])
    last = min(runs, key=lambda run: run.log.env_steps[-1])
    start, end = int(first.log.env_steps[0]), int(last.log.env_steps[-1])
    if start > end:
        raise InputError(
            f"{first.source} starts after {start:,} environment steps and {last.source} ends after "
            f"{end:,}: they cannot be compared, so leave out one of them."
        )
    if env_steps is not None and env_steps < start:
        raise InputError(
            f"{first.source} has its first return after {start:,} environment steps, not after "
            f"{env_steps:,}."
        )
    end = end if env_steps is None else min(end, env_steps)
    if others:
        shared = _between(reduce(np.intersect1d, others), start, end)
        if not len(shared):
            raise InputError(
                f"The runs on {runs[0].task} have no environment steps in common with "
                f"{first.source}: leave out one of them."
            )
        return shared
    coarsest = min((_between(run.log.env_steps, start, end) for run in runs), key=len)
    evaluated = all(run.log.kind == EVALUATIONS for run in runs)
    if evaluated and len(coarsest) and all(np.isin(coarsest, r.log.env_steps).all() for r in runs):
        return coarsest
    size = min(MAX_POINTS, len(coarsest))
    even = np.linspace(start, end, size) if size > 1 else np.array([end])
    return np.unique(even.round().astype(np.int64))


def _between(steps: np.ndarray, start: int, end: int) -> np.ndarray:
    return steps[(start <= steps) & (steps <= end)]


def returns_at(log: Log, env_steps: np.ndarray) -> np.ndarray:
    """Evaluations on the straight line between two; of episodes the mean of the latest ones."""
    if log.kind != EPISODES:
        return np.interp(env_steps, log.env_steps, log.returns)
    ends = np.searchsorted(log.env_steps, env_steps, side="right")
    firsts = np.maximum(ends - EPISODES_IN_MEAN, 0)
    sums = np.concatenate([[0.0], np.cumsum(log.returns)])
    return np.asarray((sums[ends] - sums[firsts]) / (ends - firsts))


def make_foreign(runs: Sequence[Run], env_steps: np.ndarray) -> tuple[Curves, dict[str, Any], Path]:
    """The runs of one method on one task at these steps, what is known of them, and where they
    were."""
    first = runs[0]
    curves = Curves(
        *(first.task, first.agent, first.method),
        seeds=tuple(run.seed or 0 for run in runs),
        env_steps=env_steps,
        returns=np.array([returns_at(run.log, env_steps) for run in runs]),
    )
    record = {
        "config": {},
        "returns": ", ".join(dict.fromkeys(run.log.kind for run in runs)),
        "logs": {str(run.seed): one_line(str(run.source)) for run in runs},
    }
    return curves, record, first.source


def remarks(runs: Sequence[Run], env_steps: np.ndarray, with_others: bool) -> Iterator[str]:
    """What a reader should know of the comparison on one task; others are of evaluations."""
    task, end = runs[0].task, int(env_steps[-1])
    longest = max(runs, key=lambda run: run.log.env_steps[-1])
    shortest = min(runs, key=lambda run: run.log.env_steps[-1])
    if longest.log.env_steps[-1] > CUT_SHORT * shortest.log.env_steps[-1] >= CUT_SHORT * end:
        yield (
            f"{task} is compared up to {end:,} environment steps, where {shortest.source} ends; "
            f"{longest.source} goes on to {longest.log.env_steps[-1]:,}."
        )
    kinds = {run.log.kind for run in runs} | ({EVALUATIONS} if with_others else set())
    if EVALUATIONS in kinds and len(kinds) > 1:
        yield f"On {task} some returns are of evaluations and some of training, which differ."
