"""Statistics over runs and tasks, in rliable's words.

Scores are one array per task, [..., N] with the N runs of that task last; leading axes are
independent samples, so that all resamples of a bootstrap are one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 20_000
LEVEL = 0.95
BLOCK = 1000  # resamples at a time

Scores = Sequence[np.ndarray]


@dataclass(frozen=True)
class Interval:
    """An estimate with its bounds; arrays where the statistic is one."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def as_floats(self) -> tuple[float, float, float]:
        return float(self.value), float(self.low), float(self.high)

    def __format__(self, form: str) -> str:
        """Such as '0.55 (0.45 to 0.65)', with the form of its numbers."""
        if not form:
            return str(self)
        value, low, high = (format(number, form) for number in self.as_floats())
        return f"{value} ({low} to {high})" if self.is_bounded() else value

    def is_bounded(self) -> bool:
        return bool(np.isfinite([self.low, self.high]).all())


def interquartile_mean(scores: Scores) -> np.ndarray:
    """Mean of the middle half of all runs of all tasks; a quarter, rounded down, is cut from
    either end."""
    pooled = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    cut = pooled.shape[-1] // 4
    return pooled[..., cut : pooled.shape[-1] - cut].mean(axis=-1)


def probability_of_improvement(scores: Scores, others: Scores) -> np.ndarray:
    """Probability that a run scores above one of the others on the same task, ties counted
    half (Mann and Whitney's U over the number of pairs), averaged over tasks."""
    tasks = []
    for ours, theirs in zip(scores, others, strict=True):
        difference = ours[..., :, None] - theirs[..., None, :]
        wins = np.where(np.isnan(difference), np.nan, (np.sign(difference) + 1) / 2)
        tasks.append(wins.mean(axis=(-2, -1)))
    return np.mean(tasks, axis=0)


def performance_profile(scores: Scores, thresholds: np.ndarray) -> np.ndarray:
    """Share of runs above each threshold [..., T], averaged over tasks."""
    shares = [(task[..., None] > thresholds).mean(axis=-2) for task in scores]
    return np.mean(shares, axis=0)


def first_reached(env_steps: np.ndarray, curve: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Environment steps of the first evaluation [..., E] at or above the level [...], infinite
    where there is none."""
    reached = curve >= level[..., None]
    return np.where(reached.any(axis=-1), env_steps[reached.argmax(axis=-1)], np.inf)


def efficiency_ratio(
    curve: np.ndarray, base: np.ndarray, goal: np.ndarray, env_steps: np.ndarray
) -> np.ndarray:
    """How many times fewer environment steps a method needs for the base's final return.

    Both are measured alike: by the first evaluation at which the curve [..., E], a smoothed mean
    over runs, reaches the goal [...]; or the base's highest point, if smoothing has cut it below
    that. 0: never.
    """
    goal = np.minimum(goal, base.max(axis=-1))
    return np.asarray(first_reached(env_steps, base, goal) / first_reached(env_steps, curve, goal))


def mean_of_drawn(values: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The mean [..., E] over the drawn ones, by their numbers [..., N], of values [N, E]: as a
    product with how often each was drawn, which needs no copy of them for each draw."""
    times = (drawn[..., None] == np.arange(len(values))).sum(axis=-2, dtype=float)
    return times @ values / drawn.shape[-1]


def bootstrap(
    statistic: Callable[..., np.ndarray],
    *samples: Scores,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Percentile interval of `statistic(*samples)`; runs, here the first axis, are resampled
    within each task, and each sample independently of the others. Of a task with a single run
    nothing can be said: then the bounds are not numbers."""
    if any(len(task) < 2 for scores in samples for task in scores):
        value = statistic(*samples)
        return Interval(value, np.full_like(value, np.nan), np.full_like(value, np.nan))
    draws = [
        [rng.integers(len(task), size=(resamples, len(task))) for task in scores]
        for scores in samples
    ]
    # In blocks, so that memory does not grow with the number of resamples.
    blocks = [slice(start, start + BLOCK) for start in range(0, resamples, BLOCK)]
    found = [
        statistic(
            *(
                [task[drawn[block]] for task, drawn in zip(scores, own, strict=True)]
                for scores, own in zip(samples, draws, strict=True)
            )
        )
        for block in blocks
    ]
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(found), (tail, 1 - tail), axis=0)
    return Interval(statistic(*samples), low, high)
