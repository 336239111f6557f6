"""The numbers of a report: each method on each task, and all tasks together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lfiw.results.catalogue import (
    ENV_STEPS,
    MEASURES,
    PAPER_METHODS,
    Measure,
    family_of,
    is_planned,
)
from lfiw.results.methods import Method, method_title
from lfiw.results.published import Published, published
from lfiw.results.statistics import (
    Interval,
    bootstrap,
    efficiency_ratio,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
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
    improvement: Interval | None = None  # None without uniform replay to compare with
    efficiency: Interval | None = None


@dataclass(frozen=True)
class Aggregate:
    """One method over the tasks that it shares with uniform replay, by normalised scores."""

    entry: Entry
    tasks: tuple[str, ...]
    iqm: Interval
    improvement: Interval | None  # None for uniform replay itself
    profile: Interval  # over the thresholds


@dataclass(frozen=True)
class Summary:
    tasks: tuple[str, ...]  # those with runs
    frame: tuple[str, ...]  # and those of the paper that were not run
    entries: tuple[Entry, ...]
    outcomes: dict[tuple[str, str], Outcome]  # by task and method's name
    thresholds: np.ndarray
    aggregates: tuple[Aggregate, ...]

    def outcomes_of(self, task: str) -> list[Outcome]:
        """The outcomes on a task of what was run or should be."""
        outcomes = [self.outcomes[task, entry.name] for entry in self.entries]
        return [outcome for outcome in outcomes if outcome.method or outcome.planned]


def summarise(methods: Sequence[Method]) -> Summary:
    tasks = tuple(dict.fromkeys(method.task for method in methods))
    frame = _frame(tasks)
    entries = _entries(methods, tasks)
    by_place = {(method.task, method.name): method for method in methods}
    outcomes = {
        (task, entry.name): _outcome(task, entry, by_place.get((task, entry.name)), methods)
        for task in frame
        for entry in entries
    }
    thresholds, aggregates = _aggregate(entries, methods)
    return Summary(tasks, frame, entries, outcomes, thresholds, aggregates)


def _frame(tasks: Sequence[str]) -> tuple[str, ...]:
    """The tasks; where one of them is the paper's, all of the paper's have their place."""
    families = {family_of(task) for task in tasks}
    if not families & ENV_STEPS.keys():
        return tuple(tasks)
    ours = [
        [task for task in tasks if family_of(task) == family] or [family] for family in ENV_STEPS
    ]
    others = [task for task in tasks if family_of(task) not in ENV_STEPS]
    return (*(task for group in ours for task in group), *others)


def _entries(methods: Sequence[Method], tasks: Sequence[str]) -> tuple[Entry, ...]:
    entries = {method.name: Entry(method.agent, method.name, method.title) for method in methods}
    if any(family_of(task) in ENV_STEPS for task in tasks):
        for name in PAPER_METHODS:
            agent, replay = name.split("-")
            entries.setdefault(name, Entry(agent, name, method_title(agent, replay)))
    rank = {name: index for index, name in enumerate(PAPER_METHODS)}
    order = sorted(
        entries.values(), key=lambda entry: (entry.agent, rank.get(entry.name, len(rank)))
    )
    return tuple(order)


def base_of(method: Method, methods: Sequence[Method]) -> Method | None:
    """Uniform replay with the same agent on the same task, trained as long; of the same label if
    there is one."""

    def circumstances(one: Method) -> tuple[str, str, int]:
        return one.task, one.agent, int(one.curves.env_steps[-1])

    uniform = {
        other.label: other
        for other in methods
        if other.replay == "uniform" and circumstances(other) == circumstances(method)
    }
    return uniform.get(method.label, uniform.get(""))


def resampled(statistic: Callable[..., np.ndarray], *samples: Sequence[np.ndarray]) -> Interval:
    """An interval that does not depend on what else is in the report."""
    return bootstrap(statistic, *samples, rng=np.random.default_rng(0))


def _outcome(task: str, entry: Entry, method: Method | None, methods: Sequence[Method]) -> Outcome:
    planned = is_planned(task, entry.name)
    outcome = partial(Outcome, task, entry, method, published(task, entry.name), planned)
    if method is None:
        return outcome()
    rivals = [other for other in methods if (other.task, other.agent) == (task, method.agent)]
    longest = max(other.curves.env_steps[-1] for other in rivals)
    as_long = [other for other in rivals if other.curves.env_steps[-1] == longest]
    base = base_of(method, methods)
    base = None if base is method else base
    planned_steps = method.config.get("env_steps") or 0
    return outcome(
        best=frozenset(m.name for m in MEASURES if _leads(m, method, as_long)),
        complete=bool(method.curves.env_steps[-1] >= max(longest, planned_steps)),
        iqm=resampled(interquartile_mean, [method.curves.final()]),
        improvement=_improvement(method, base) if base else None,
        efficiency=_efficiency(method, base) if base else None,
    )


def _leads(measure: Measure, method: Method, rivals: Sequence[Method]) -> bool:
    """Whether a method has the highest mean of several."""
    means = {rival.name: measure.of(rival.curves).mean() for rival in rivals}
    ours = means.pop(method.name, np.nan)
    finite = [mean for mean in means.values() if np.isfinite(mean)]
    return bool(means) and all(ours >= mean for mean in (*finite, -np.inf))


def _improvement(method: Method, base: Method) -> Interval:
    scores, others = [method.curves.final()], [base.curves.final()]
    return resampled(probability_of_improvement, scores, others)


def _efficiency(method: Method, base: Method) -> Interval:
    def ratio(ours: list[np.ndarray], theirs: list[np.ndarray]) -> np.ndarray:
        steps = (method.curves.env_steps, base.curves.env_steps)
        return efficiency_ratio(ours[0], theirs[0], *steps, base.curves.final_size)

    return resampled(ratio, [method.curves.returns], [base.curves.returns])


def normalised(method: Method, base: Method) -> np.ndarray:
    """Final returns on a scale where uniform replay's mean first evaluation is 0 and its mean
    final return 1; not a number where it learned nothing."""
    start = base.curves.returns[:, 0].mean()
    span = base.curves.final().mean() - start
    return (method.curves.final() - start) / (span if span > 0 else np.nan)


def _aggregate(
    entries: Sequence[Entry], methods: Sequence[Method]
) -> tuple[np.ndarray, tuple[Aggregate, ...]]:
    """Thresholds of the profiles, and every method that can be compared with uniform replay."""
    scored = [
        (one, base, scores)
        for one in methods
        if (base := base_of(one, methods)) and np.isfinite(scores := normalised(one, base)).all()
    ]
    pooled = np.concatenate([scores for _, _, scores in scored] or [np.ones(1)])
    margin = 0.05 * (np.ptp(pooled) or 1.0)
    thresholds = np.linspace(pooled.min() - margin, pooled.max() + margin, NUM_THRESHOLDS)
    profile = partial(performance_profile, thresholds=thresholds)
    aggregates = []
    for entry in entries:
        own = [found for found in scored if found[0].name == entry.name]
        if not own:
            continue
        all_scores = [scores for _, _, scores in own]
        ours = [method.curves.final() for method, _, _ in own]
        theirs = [base.curves.final() for _, base, _ in own]
        is_base = all(method is base for method, base, _ in own)
        aggregates.append(
            Aggregate(
                entry,
                tuple(method.task for method, _, _ in own),
                iqm=resampled(interquartile_mean, all_scores),
                improvement=None
                if is_base
                else resampled(probability_of_improvement, ours, theirs),
                profile=resampled(profile, all_scores),
            )
        )
    return thresholds, tuple(aggregates)
