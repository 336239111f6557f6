"""Signs that a run goes wrong, each told once with the setting to change. Nothing is changed for
the user.

The limits are our choice, set such that few of the stored results that did not collapse pass them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from statistics import fmean, median
from typing import NamedTuple

from lfiw.learning.config import TrainConfig
from lfiw.runs.rows import Row, rounded

RECENT, GAP, FORMER = 10_000, 50_000, 100_000  # environment steps
EVERY = 1000  # of which one phase is looked at
BEGINNING = 200_000  # before which Q grows fast in any run
SMALL_SAMPLE_SIZE = 0.1
Q_GROWTH, TD_ERROR_GROWTH = 2.0, 3.0
FLOOR = "replay.min_effective_sample_size"


class Seen(NamedTuple):
    """What a phase says of a run."""

    env_steps: int
    q_mean: float
    td_error: float
    sample_size: float | None  # of the ratio's weights, before a floor


class Guard:
    """Follows the training rows of one run."""

    def __init__(self, config: TrainConfig) -> None:
        floor = getattr(config.replay, "min_effective_sample_size", None)
        self._floored = bool(floor)
        self._remedy = f"{FLOOR}=0.6" if floor == 0 else "a smaller agent.learning_rate"
        self._seen: deque[Seen] = deque()
        self._told: set[str] = set()
        self._block = 0

    def look(self, row: Row) -> list[str]:
        """A sentence for each sign that was not there before."""
        names = ("q_mean", "td_error", "raw_effective_sample_size")
        q_mean, td_error, sample_size = (rounded(row.get(name)) for name in names)
        block = row["env_steps"] // EVERY
        if q_mean is None or td_error is None or block == self._block:
            return []
        self._block = block
        self._seen.append(Seen(row["env_steps"], q_mean, td_error, sample_size))
        while self._seen[0].env_steps <= row["env_steps"] - RECENT - GAP - FORMER:
            self._seen.popleft()
        new = {name: text for name, text in self._signs() if name not in self._told}
        self._told |= new.keys()
        return list(new.values())

    def _signs(self) -> Iterator[tuple[str, str]]:
        now = self._seen[-1].env_steps
        recent = [seen for seen in self._seen if seen.env_steps > now - RECENT]
        former = [seen for seen in self._seen if seen.env_steps <= now - RECENT - GAP]
        sizes = [seen.sample_size for seen in recent if seen.sample_size is not None]
        if len(recent) < len(self._seen) and sizes and fmean(sizes) < SMALL_SAMPLE_SIZE:
            share = f"the ratio's weights {{}}leave {fmean(sizes):.0%} of a batch to learn from"
            without_floor = f"{share.format('')}; {self._remedy} sets a floor, a"
            with_floor = f"{share.format('alone would ')}, which its floor prevents; a"
            yield (
                "sample size",
                f"{with_floor if self._floored else without_floor} larger replay.temperature evens "
                f"them out",
            )
        if now < BEGINNING or not former:
            return
        q, highest = fmean(seen.q_mean for seen in recent), max(abs(s.q_mean) for s in former)
        if q > Q_GROWTH * highest > 0:
            yield (
                "q",
                f"its Q has grown {q / highest:.1f}-fold within {GAP:,} steps, as before a "
                f"collapse; {self._remedy} may help",
            )
        error, usual = fmean(s.td_error for s in recent), median(s.td_error for s in former)
        if error > TD_ERROR_GROWTH * usual > 0:
            yield (
                "td error",
                f"its TD error is {error / usual:.1f} times what it was {GAP:,} steps ago, as in a "
                f"collapse; {self._remedy} may help",
            )
