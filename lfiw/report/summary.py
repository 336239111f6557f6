"""The numbers of a report: each method on each task, and all tasks together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from lfiw.machine import usable_cores
from lfiw.report.comparison import (
    at_shared_steps,
    base_of,
    choose_baseline,
    efficiency,
    improvement,
    normalised,
    published_of,
    resampled,
)
from lfiw.results.catalogue import (
    ENV_STEPS,
    MEASURES,
    PAPER_METHODS,
    PLANNED_METHODS,
    STRATEGIES,
    Measure,
    family_of,
    is_planned,
)
from lfiw.results.curves import Curves
from lfiw.results.method import Method, method_title
from lfiw.results.published import Published, published
from lfiw.results.statistics import (
    Interval,
    interquartile_mean,
    performance_profile,
)

NUM_THRESHOLDS = 201


@dataclass(frozen=True)
class Entry:
    """A row of the tables: one method over all tasks."""

    agent: str
    name: str
    title: str


@dataclass(frozen=True)
class Outcome:
    """One method on one task."""

    task: str
    entry: Entry
    method: Method | None  # None: not run
    published: Published | None
    planned: bool  # a cell of the paper's table, or of tasks that it has not
    best: frozenset[str] = frozenset()  # measures in which it has the agent's highest mean
    complete: bool = True  # as long as planned, and as the agent's longest run on the task
    iqm: Interval | None = None  # of the final returns
    improvement: Interval | None = None  # None without a baseline to compare with
    above_lfiw: Interval | None = None  # as published
    efficiency: Interval | None = None


class Scored(NamedTuple):
    """A method with what it is compared with, and its runs on the baseline's scale."""

    method: Method
    base: Method
    published: Method | None
    finals: np.ndarray
    areas: np.ndarray


@dataclass(frozen=True)
class Aggregate:
    """One method over the tasks that it shares with the baseline, by normalised scores; or one
    strategy over the tasks of all agents."""

    entry: Entry
    tasks: tuple[str, ...]
    iqm: Interval
    area: Interval
    improvement: Interval | None  # None for the baseline itself
    above_lfiw: Interval | None  # None for LFIW as published itself, and where it was not run
    profile: Interval | None  # over the thresholds; None where agents are together
    curves: tuple[Curves, ...]


@dataclass(frozen=True)
class Summary:
    tasks: tuple[str, ...]  # those with runs
    frame: tuple[str, ...]  # and those of the paper that were not run
    entries: tuple[Entry, ...]
    outcomes: dict[tuple[str, str], Outcome]  # by task and method's name
    thresholds: np.ndarray
    aggregates: tuple[Aggregate, ...]
    pooled: tuple[Aggregate, ...]  # over agents, where there are several
    baseline: str = ""  # what others are compared with: a title, or empty for uniform replay
    has_own: bool = True  # not of other libraries' logs alone, where LFIW has no place

    @property
    def base(self) -> str:
        """The baseline as sentences have it."""
        return self.baseline or "uniform replay"

    @property
    def own_agent(self) -> str:
        """Uniform replay is that of the same agent."""
        return "" if self.baseline else " with the same agent"

    def outcomes_of(self, task: str) -> list[Outcome]:
        """The outcomes on a task of what was run or should be."""
        outcomes = [self.outcomes[task, entry.name] for entry in self.entries]
        return [outcome for outcome in outcomes if outcome.method or outcome.planned]


def summarise(methods: Sequence[Method], named: str = "") -> Summary:
    """`named` is the method that the others are compared with, in the place of uniform replay."""
    baseline = choose_baseline(methods, named)
    tasks = tuple(dict.fromkeys(method.task for method in methods))
    own = tuple(method.task for method in methods if not method.is_foreign)
    frame = _frame(tasks, own)
    entries = _entries(methods, own)
    by_place = {(method.task, method.name): method for method in methods}
    places = [(task, entry) for task in frame for entry in entries]
    with side_by_side() as threads:
        found = threads.map(
            lambda task, entry: _outcome(
                task, entry, by_place.get((task, entry.name)), methods, baseline
            ),
            *zip(*places, strict=True),
        )
        outcomes = {(one.task, one.entry.name): one for one in found}
    scored = _scored(methods, baseline)
    thresholds = _thresholds(scored)
    by_name = {entry: [one for one in scored if one.method.name == entry.name] for entry in entries}
    return Summary(
        *(tasks, frame, entries, outcomes, thresholds),
        aggregates=_aggregates(by_name, thresholds),
        pooled=_aggregates(_by_strategy(scored)),
        baseline=next((entry.title for entry in entries if entry.name == baseline), ""),
        has_own=bool(own),
    )


@contextmanager
def side_by_side() -> Iterator[ThreadPoolExecutor]:
    """Bootstraps on all cores: numpy lets other threads run. Its products are too small to be
    shared among threads of their own."""
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(usable_cores()) as threads:
        yield threads


def _frame(tasks: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """The tasks; where one of our own runs is on one of the paper's, all of those have a place."""
    families = {family_of(task) for task in own}
    if not families & ENV_STEPS.keys():
        return tuple(tasks)
    ours = [
        [task for task in tasks if family_of(task) == family] or [family] for family in ENV_STEPS
    ]
    others = [task for task in tasks if family_of(task) not in ENV_STEPS]
    return (*(task for group in ours for task in group), *others)


def _entries(methods: Sequence[Method], own_tasks: Sequence[str]) -> tuple[Entry, ...]:
    entries = {method.name: Entry(method.agent, method.name, method.title) for method in methods}
    if any(family_of(task) in ENV_STEPS for task in own_tasks):
        for own in PAPER_METHODS:
            entries.setdefault(own.name, Entry(own.agent, own.name, method_title(*own)))
    rank = {method.name: index for index, method in enumerate(PLANNED_METHODS)}
    order = sorted(
        entries.values(), key=lambda entry: (entry.agent, rank.get(entry.name, len(rank)))
    )
    return tuple(order)


def _outcome(
    task: str,
    entry: Entry,
    method: Method | None,
    methods: Sequence[Method],
    baseline: str,
) -> Outcome:
    planned = is_planned(task, entry.name)
    outcome = partial(Outcome, task, entry, method, published(task, entry.name), planned)
    if method is None:
        return outcome()
    rivals = [other for other in methods if (other.task, other.agent) == (task, method.agent)]
    longest = max(other.curves.env_steps[-1] for other in rivals)
    as_long = [other for other in rivals if other.curves.env_steps[-1] == longest]
    base, lfiw = base_of(method, methods, baseline), published_of(method, rivals)
    planned_steps = method.config.get("env_steps") or 0
    return outcome(
        best=frozenset(m.name for m in MEASURES if _leads(m, method, as_long)),
        complete=bool(method.curves.env_steps[-1] >= max(longest, planned_steps)),
        iqm=resampled(interquartile_mean, [method.curves.final()]),
        improvement=improvement([method], [base]) if base and base is not method else None,
        above_lfiw=improvement([method], [lfiw]) if lfiw and lfiw is not method else None,
        efficiency=efficiency(method, base) if base and base is not method else None,
    )


def _leads(measure: Measure, method: Method, rivals: Sequence[Method]) -> bool:
    """Whether a method has the highest mean of several."""
    means = {rival.name: measure.of(rival.curves).mean() for rival in rivals}
    ours = means.pop(method.name, np.nan)
    finite = [mean for mean in means.values() if np.isfinite(mean)]
    return bool(means) and all(ours >= mean for mean in (*finite, -np.inf))


def _scored(methods: Sequence[Method], baseline: str) -> list[Scored]:
    """Every method that can be compared with the baseline."""
    scored = [
        _score(method, base, published_of(method, methods))
        for method in methods
        if (base := base_of(method, methods, baseline))
    ]
    return [one for one in scored if np.isfinite([one.finals, one.areas]).all()]


def _score(method: Method, base: Method, lfiw: Method | None) -> Scored:
    curves, of_base = at_shared_steps(method, base)
    finals, areas = (normalised(values, of_base) for values in (curves.final(), curves.area()))
    return Scored(method, base, lfiw, finals, areas)


def _thresholds(scored: Sequence[Scored]) -> np.ndarray:
    """Of the profiles."""
    pooled = np.concatenate([one.finals for one in scored] or [np.ones(1)])
    margin = 0.05 * (np.ptp(pooled) or 1.0)
    return np.linspace(pooled.min() - margin, pooled.max() + margin, NUM_THRESHOLDS)


def _by_strategy(scored: Sequence[Scored]) -> dict[Entry, list[Scored]]:
    """Agents together, where there are several."""
    if len({one.method.agent for one in scored}) < 2:
        return {}
    groups: dict[str, list[Scored]] = {}
    for one in scored:
        groups.setdefault(one.method.curves.strategy, []).append(one)
    order = sorted(groups, key=lambda name: [*STRATEGIES, name].index(name))
    return {Entry("", name, groups[name][0].method.strategy_title): groups[name] for name in order}


def _aggregates(
    groups: Mapping[Entry, Sequence[Scored]], thresholds: np.ndarray | None = None
) -> tuple[Aggregate, ...]:
    """With profiles where there are thresholds; without, for several agents together."""
    scored = {entry: own for entry, own in groups.items() if own}
    with side_by_side() as threads:
        return tuple(threads.map(_aggregate, scored, scored.values(), repeat(thresholds)))


def _aggregate(entry: Entry, own: Sequence[Scored], thresholds: np.ndarray | None) -> Aggregate:
    finals = [one.finals for one in own]
    against_base = [(one.method, one.base) for one in own if one.base is not one.method]
    against_lfiw = [
        (one.method, one.published)
        for one in own
        if one.published and one.published is not one.method
    ]
    profile = None
    if thresholds is not None:
        profile = resampled(partial(performance_profile, thresholds=thresholds), finals)
    return Aggregate(
        entry,
        tuple(one.method.place if thresholds is None else one.method.task for one in own),
        iqm=resampled(interquartile_mean, finals),
        area=resampled(interquartile_mean, [one.areas for one in own]),
        improvement=improvement(*zip(*against_base, strict=True)) if against_base else None,
        above_lfiw=improvement(*zip(*against_lfiw, strict=True)) if against_lfiw else None,
        profile=profile,
        curves=tuple(one.method.curves for one in own),
    )
