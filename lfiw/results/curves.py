"""Learning curves read from method folders, and the numbers that sum them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lfiw.errors import NothingYet
from lfiw.results.catalogue import MEASURES
from lfiw.results.table import Table
from lfiw.runs.config_file import read_config
from lfiw.runs.read import read_evaluations
from lfiw.runs.rows import Row
from lfiw.wording import one_line, spread

FINAL_EVALUATIONS = 10
# A run collapses where its mean over this many environment steps, of the latest evaluation in each
# of so many parts of them, falls below half of its best so far. Means over all evaluations would
# hide more of what is evaluated more often.
COLLAPSE_ENV_STEPS, COLLAPSE_EVALUATIONS = 60_000, 3


@dataclass(frozen=True)
class Curves:
    """Evaluation returns of all seeds of one method folder."""

    env: str
    agent: str
    method: str  # the folder's name: agent, strategy and label
    seeds: tuple[int, ...]
    env_steps: np.ndarray  # [E]
    returns: np.ndarray  # [S, E]

    @property
    def strategy(self) -> str:
        """The method without its agent."""
        return self.method.removeprefix(f"{self.agent}-")

    def maximum(self) -> np.ndarray:
        """The paper's number: each seed's best evaluation."""
        return self.returns.max(axis=1)

    @property
    def final_size(self) -> int:
        """How many evaluations are the final ones: a tenth of the curve where it is short."""
        return min(FINAL_EVALUATIONS, max(1, self.returns.shape[1] // 10))

    def final(self) -> np.ndarray:
        """Each seed's mean over the last evaluations."""
        return self.returns[:, -self.final_size :].mean(axis=1)

    def area(self) -> np.ndarray:
        """Each seed's mean return over training."""
        if len(self.env_steps) == 1:
            return self.returns[:, 0]
        widths = np.diff(self.env_steps)
        heights = (self.returns[:, 1:] + self.returns[:, :-1]) / 2
        return (heights * widths).sum(axis=1) / widths.sum()

    def collapsed(self) -> np.ndarray:
        """1 for each seed that collapses and 0 for others; not a number where that cannot be
        told, as the curve is too short or coarse, or never above 0."""
        part = COLLAPSE_ENV_STEPS // COLLAPSE_EVALUATIONS
        parts = np.ceil(self.env_steps / part)
        latest = np.append(parts[1:] > parts[:-1], True)
        steps, returns = self.env_steps[latest], self.returns[:, latest]
        firsts = np.searchsorted(steps, steps - COLLAPSE_ENV_STEPS, side="right")
        ends = np.arange(1, len(steps) + 1)
        whole = (steps >= COLLAPSE_ENV_STEPS) & (ends - firsts >= COLLAPSE_EVALUATIONS)
        if not whole.any():
            return np.full(len(self.seeds), np.nan)
        means = _means(returns, firsts[whole], ends[whole])
        best = np.maximum.accumulate(means, axis=1)
        fallen = ((means < best / 2) & (best > 0)).any(axis=1)
        return np.where(best[:, -1] > 0, fallen, np.nan)

    def at(self, env_steps: np.ndarray) -> Curves:
        """At these environment steps alone, where all of them were evaluated."""
        chosen = np.isin(self.env_steps, env_steps)
        return replace(self, env_steps=self.env_steps[chosen], returns=self.returns[:, chosen])

    def smoothed(self, evaluations: int) -> Curves:
        """Each point is the mean of the evaluations around it, of fewer at the ends."""
        reach, places = evaluations // 2, np.arange(len(self.env_steps))
        firsts, ends = np.maximum(places - reach, 0), np.minimum(places + reach + 1, len(places))
        return replace(self, returns=_means(self.returns, firsts, ends))


def _means(values: np.ndarray, firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Of the columns from each first to before each end, in one pass over [S, E]."""
    bounds = np.stack([firsts, ends], axis=1).ravel()
    padded = np.pad(values, ((0, 0), (0, 1)))  # so that the last end is a place too
    return np.add.reduceat(padded, bounds, axis=1)[:, ::2] / (ends - firsts)


def read_curves(folder: Path) -> Curves:
    """The evaluations that every seed has had so far, without seeds that were given up."""
    config = read_config(folder)["config"]
    return make_curves(read_evaluations(folder), config, Path(folder).resolve().name, folder)


def make_curves(
    rows: Sequence[Row], config: dict[str, Any], method: str, source: str | Path
) -> Curves:
    """Curves from rows of evaluations, up to what every seed has; `source` is for errors."""
    seeds = tuple(sorted({row["seed"] for row in rows}))
    if not seeds:
        raise NothingYet(f"{source} has no evaluation yet.")
    grid = rows_by_seed(rows)
    if not grid[0]:
        raise NothingYet(f"{source} has no evaluation of all its seeds yet.")
    return Curves(
        env=one_line(config["env"]["id"]),
        agent=str((config.get("agent") or {}).get("name", "")),
        method=one_line(method),
        seeds=seeds,
        env_steps=np.array([row["env_steps"] for row in grid[0]]),
        returns=column(grid, "return_mean"),
    )


def rows_by_seed(rows: Sequence[Row]) -> list[list[Row]]:
    """Of each seed, in order, the rows of the environment steps at which every seed was
    evaluated."""
    by_seed: dict[int, dict[int, Row]] = {}
    for row in rows:
        by_seed.setdefault(row["seed"], {})[row["env_steps"]] = row
    shared = sorted(set.intersection(*map(set, by_seed.values())))
    return [[by_seed[seed][step] for step in shared] for seed in sorted(by_seed)]


def column(grid: Sequence[Sequence[Row]], name: str) -> np.ndarray:
    """One value of the rows as an array [S, E]; what is absent or null is not a number."""
    return np.array([[row.get(name) for row in rows] for rows in grid], float)


def collapses(curves: Sequence[Curves]) -> int | None:
    """How many of all seeds collapse; None where it can be told of none."""
    known = np.concatenate([curve.collapsed() for curve in curves])
    return int(np.nansum(known)) if np.isfinite(known).any() else None


def collapses_text(curves: Sequence[Curves]) -> str:
    """Such as '2 of 5'."""
    number = collapses(curves)
    return "–" if number is None else f"{number} of {sum(len(curve.seeds) for curve in curves)}"


def comparison_table(curves: Sequence[Curves]) -> Table:
    """Maximum, final and area under the curve: mean ± standard deviation over seeds."""
    envs = list(dict.fromkeys(curve.env for curve in curves))
    rows = [
        (
            curve.method if len(envs) == 1 else f"{curve.env} {curve.method}",
            str(len(curve.seeds)),
            f"{curve.env_steps[-1]:,}",
            *(spread(measure.of(curve)) for measure in MEASURES),
            collapses_text([curve]),
        )
        for curve in curves
    ]
    header = ("method", "seeds", "steps", *(measure.name for measure in MEASURES), "collapses")
    title = f"{', '.join(envs)}: return, mean ± standard deviation over seeds"
    return Table(header, rows, title)
