"""The tables of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lfiw.report.comparison import SMOOTHED_EVALUATIONS
from lfiw.report.summary import Aggregate, Entry, Outcome, Summary
from lfiw.results.catalogue import ENV_STEPS, MEASURES, Measure, family_of
from lfiw.results.curves import COLLAPSE_ENV_STEPS, collapses_text
from lfiw.results.method import Method
from lfiw.results.statistics import Interval
from lfiw.results.table import BEST, NOT_PLANNED, NOT_RUN, Table, Text
from lfiw.wording import spread

COLLAPSES = (
    f"A run collapses where its mean over {COLLAPSE_ENV_STEPS:,} environment steps falls below "
    "half of its best so far."
)


def all_tables(summary: Summary, methods: Sequence[Method]) -> dict[str, list[Table]]:
    """By section: the paper's form, each task, all tasks together, what was run."""
    own = [method for method in methods if not method.is_foreign]
    return {
        "overview": [overview_table(summary, measure) for measure in MEASURES],
        "tasks": [task_table(summary, task) for task in summary.tasks],
        "aggregate": [
            *([aggregate_table(summary)] if summary.aggregates else []),
            *([pooled_table(summary)] if summary.pooled else []),
        ],
        "provenance": [provenance_table(own)] if own else [],
    }


def compared(summary: Summary) -> tuple[str, ...]:
    """The headings of probabilities."""
    ours = f"P(better than {summary.baseline or 'uniform'})"
    return (ours, "P(better than LFIW)") if summary.has_own else (ours,)


def _aggregated(summary: Summary) -> tuple[str, ...]:
    return ("IQM of the scores", "IQM of the area", *compared(summary), "collapses")


def _probabilities(summary: Summary, one: Outcome | Aggregate) -> list[Text]:
    found = (one.improvement, one.above_lfiw)
    return [interval_text(each, ".2f") for each in found[: len(compared(summary))]]


def _agent_starts(entries: Sequence[Entry]) -> frozenset[int]:
    return frozenset(
        index
        for index in range(1, len(entries))
        if entries[index].agent != entries[index - 1].agent
    )


def overview_table(summary: Summary, measure: Measure) -> Table:
    """The paper's form: a row per method, a column per task."""
    rows: list[tuple[Text | str, ...]] = [
        (
            entry.title,
            *(_measured(summary.outcomes[task, entry.name], measure) for task in summary.frame),
        )
        for entry in summary.entries
    ]
    return Table(
        ("method", *summary.frame),
        rows,
        f"{measure.title.capitalize()}.",
        f"Mean ± standard deviation over seeds of {_explained(summary, measure)}. "
        f"{BEST}: the agent's highest mean.",
        _agent_starts(summary.entries),
    )


def _explained(summary: Summary, measure: Measure) -> str:
    """With what the paper has, where it has a place."""
    own = measure.explanation + measure.remark
    return own if summary.has_own else measure.explanation.removesuffix(", the paper's number")


def _measured(outcome: Outcome, measure: Measure) -> Text:
    """An outcome in the paper's form, with the paper's number where it has one."""
    notes = []
    if outcome.method and not outcome.complete:
        notes.append(f"{outcome.method.curves.env_steps[-1]:,} steps only")
    if measure.name == "maximum" and outcome.published:
        notes.append(f"paper {outcome.published}")
    return Text(_spread(outcome, measure), ", ".join(notes), measure.name in outcome.best)


def task_table(summary: Summary, task: str) -> Table:
    """Everything about one task."""
    outcomes = summary.outcomes_of(task)
    return Table(
        (
            *("method", "seeds × steps", *(measure.title for measure in MEASURES)),
            *("IQM of final", *compared(summary), "sample efficiency", "collapses"),
        ),
        [_task_row(summary, outcome) for outcome in outcomes],
        f"{task}.",
        f"Mean ± standard deviation over seeds{_published_on(task) if summary.has_own else ''}; "
        f"IQM, {_endings(summary)}, and sample efficiency with 95 % bootstrap intervals, of the "
        f"final return{summary.own_agent and ','}{summary.own_agent}. Sample efficiency is of "
        f"curves smoothed over {SMOOTHED_EVALUATIONS} evaluations. {COLLAPSES}",
        _agent_starts([outcome.entry for outcome in outcomes]),
    )


def _endings(summary: Summary) -> str:
    if not summary.has_own:
        return f"probability of ending above {summary.base}"
    return f"probabilities of ending above {summary.base} and above LFIW as published"


def _published_on(task: str) -> str:
    family = family_of(task)
    if family not in ENV_STEPS:
        return ""
    return f" (the paper's numbers: {family}-v2, {ENV_STEPS[family]:,} steps)"


def _task_row(summary: Summary, outcome: Outcome) -> tuple[Text | str, ...]:
    measured = [_measured(outcome, measure) for measure in MEASURES]
    if outcome.method is None:
        return (outcome.entry.title, "–", *measured, *["–"] * (3 + len(compared(summary))))
    curves = outcome.method.curves
    return (
        outcome.entry.title,
        f"{len(curves.seeds)} × {curves.env_steps[-1]:,}",
        *measured,
        interval_text(outcome.iqm, ",.0f"),
        *_probabilities(summary, outcome),
        efficiency_text(outcome.efficiency),
        Text(collapses_text([curves]), _stopped(outcome.method)),
    )


def _stopped(method: Method) -> str:
    """Runs whose numbers were no longer finite are in no curve."""
    return f"and {len(method.stopped_seeds)} stopped" if method.stopped_seeds else ""


def aggregate_table(summary: Summary) -> Table:
    return Table(
        ("method", "tasks", *_aggregated(summary)),
        _aggregate_rows(summary, summary.aggregates, len(summary.tasks)),
        "All tasks together.",
        f"Scores are final returns on a scale where {summary.base}{summary.own_agent} starts at 0 "
        "(its mean first evaluation) and ends at 1 (its mean final return); a task on which it "
        "does not end above its start is left out. The area is on the same scale. Runs are "
        f"resampled within each task. {COLLAPSES}",
        _agent_starts([aggregate.entry for aggregate in summary.aggregates]),
    )


def pooled_table(summary: Summary) -> Table:
    pairs = {place for aggregate in summary.pooled for place in aggregate.tasks}
    return Table(
        ("strategy", "task-agent pairs", *_aggregated(summary)),
        _aggregate_rows(summary, summary.pooled, len(pairs)),
        "All agents and tasks together.",
        "The same for each strategy over all pairs of a task and an agent that it was run on. "
        "Runs are resampled within each pair; numbers over different pairs do not compare.",
    )


def _aggregate_rows(
    summary: Summary, aggregates: Sequence[Aggregate], of: int
) -> list[tuple[Text | str, ...]]:
    return [
        (
            aggregate.entry.title,
            f"{len(aggregate.tasks)} of {of}",
            interval_text(aggregate.iqm, ".3f"),
            interval_text(aggregate.area, ".3f"),
            *_probabilities(summary, aggregate),
            collapses_text(aggregate.curves),
        )
        for aggregate in aggregates
    ]


def provenance_table(methods: Sequence[Method]) -> Table:
    """Runs that were made alike share a row."""
    groups: dict[tuple[str, ...], list[Method]] = {}
    for method in methods:
        groups.setdefault((method.task, *_circumstances(method)), []).append(method)
    rows = [
        tuple(
            words or "not recorded"
            for words in (", ".join(one.title for one in group), *circumstances, _wall_time(group))
        )
        for circumstances, group in groups.items()
    ]
    header = ("methods", "task", "commit", "hardware", "versions", "command", "wall time")
    return Table(header, rows, "Circumstances", "as the runs recorded them.")


def _circumstances(method: Method) -> tuple[str, ...]:
    hardware = method.hardware
    device = str(hardware.get("device") or hardware.get("cpu") or "")
    cores = f", {hardware['cores']} cores" if "cores" in hardware else ""
    versions = ", ".join(f"{name} {version}" for name, version in method.versions.items())
    return method.commit, device + cores, versions, method.command


def _wall_time(group: Sequence[Method]) -> str:
    times = [method.wall_seconds for method in group if method.wall_seconds is not None]
    if not times:
        return ""
    shortest, longest = f"{min(times):,.0f}", f"{max(times):,.0f}"
    return f"{longest} s" if shortest == longest else f"{shortest} to {longest} s"


def interval_text(interval: Interval | None, form: str) -> Text:
    """The estimate, and its bounds where it has some."""
    return _interval(interval, lambda number: format(number, form))


def efficiency_text(interval: Interval | None) -> Text:
    """A factor; 0 stands for a level that was never reached."""
    text = _interval(interval, lambda number: f"{number:.2f}×" if number else "never")
    return replace(text, words="not reached") if text.words == "never" else text


def _interval(interval: Interval | None, form: Callable[[float], str]) -> Text:
    if interval is None or not np.isfinite(interval.value):
        return Text("–")
    value, low, high = map(form, interval.as_floats())
    return Text(value, f"{low} to {high}" if interval.is_bounded() else "")


def _spread(outcome: Outcome, measure: Measure) -> str:
    if outcome.method is None:
        return NOT_RUN if outcome.planned else NOT_PLANNED
    values = measure.of(outcome.method.curves)
    return spread(values) if np.isfinite(values).all() else "not finite"


def markdown(tables: dict[str, list[Table]]) -> str:
    return "\n".join(table.markdown() for section in tables.values() for table in section)
