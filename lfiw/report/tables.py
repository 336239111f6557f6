"""The tables of a report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lfiw.report.summary import METRICS, Cell, Entry, Summary
from lfiw.results.methods import Method
from lfiw.results.published import ENV_STEPS, family_of
from lfiw.results.statistics import Interval
from lfiw.results.table import BEST, NOT_PLANNED, NOT_RUN, Table, Text
from lfiw.wording import spread

HEADINGS = {"maximum": "maximum", "final": "final", "area": "area under the curve"}
EXPLANATIONS = {
    "maximum": "each seed's best evaluation, the paper's number (there on -v2 tasks, Humanoid for "
    "5,000,000 steps); it grows with the number of evaluations",
    "final": "each seed's mean over its last ten evaluations (a tenth of a shorter curve)",
    "area": "each seed's mean return over training",
}


def all_tables(summary: Summary, methods: Sequence[Method]) -> dict[str, list[Table]]:
    """By section: the paper's form, each task, all tasks together, what was run."""
    return {
        "overview": [overview_table(summary, metric) for metric in METRICS],
        "tasks": [task_table(summary, task) for task in summary.tasks],
        "aggregate": [aggregate_table(summary)] if summary.aggregates else [],
        "provenance": [provenance_table(methods)],
    }


def _agent_starts(entries: Sequence[Entry]) -> frozenset[int]:
    return frozenset(
        index
        for index in range(1, len(entries))
        if entries[index].agent != entries[index - 1].agent
    )


def overview_table(summary: Summary, metric: str) -> Table:
    """The paper's form: a row per method, a column per task."""
    rows = [
        (
            Text(entry.title),
            *(_metric_text(summary.cells[task, entry.name], metric) for task in summary.frame),
        )
        for entry in summary.entries
    ]
    return Table(
        f"{HEADINGS[metric].capitalize()}.",
        f"Mean ± standard deviation over seeds of {EXPLANATIONS[metric]}. "
        f"{BEST}: the agent's highest mean.",
        ("method", *summary.frame),
        tuple(rows),
        _agent_starts(summary.entries),
    )


def _metric_text(cell: Cell, metric: str) -> Text:
    """A cell in the paper's form, with the paper's number where it has one."""
    notes = []
    if cell.run and not cell.complete:
        notes.append(f"{cell.run.curves.env_steps[-1]:,} steps only")
    if metric == "maximum" and cell.published:
        notes.append(f"paper {cell.published.mean:,.0f} ± {cell.published.std:,.0f}")
    return Text(_spread(cell, metric), ", ".join(notes), metric in cell.best)


def task_table(summary: Summary, task: str) -> Table:
    """Everything about one task."""
    cells = summary.cells_of(task)
    return Table(
        f"{task}.",
        f"Mean ± standard deviation over seeds{_published_on(task)}; IQM, probability of "
        "improvement and sample efficiency with 95 % bootstrap intervals, of the final return, "
        "against uniform replay with the same agent.",
        (
            *("method", "seeds × steps", *HEADINGS.values()),
            *("IQM of final", "P(better than uniform)", "sample efficiency"),
        ),
        tuple(_task_row(cell) for cell in cells),
        _agent_starts([cell.entry for cell in cells]),
    )


def _published_on(task: str) -> str:
    family = family_of(task)
    if family not in ENV_STEPS:
        return ""
    return f" (the paper's numbers: {family}-v2, {ENV_STEPS[family]:,} steps)"


def _task_row(cell: Cell) -> tuple[Text, ...]:
    metrics = [_metric_text(cell, metric) for metric in METRICS]
    if cell.run is None:
        return (Text(cell.entry.title), Text("–"), *metrics, *[Text("–")] * 3)
    curves = cell.run.curves
    return (
        Text(cell.entry.title),
        Text(f"{len(curves.seeds)} × {curves.env_steps[-1]:,}"),
        *metrics,
        interval_text(cell.iqm, ",.0f"),
        interval_text(cell.improvement, ".2f"),
        efficiency_text(cell.efficiency),
    )


def aggregate_table(summary: Summary) -> Table:
    rows = [
        (
            Text(aggregate.entry.title),
            Text(f"{len(aggregate.tasks)} of {len(summary.tasks)}"),
            interval_text(aggregate.iqm, ".3f"),
            interval_text(aggregate.improvement, ".2f"),
        )
        for aggregate in summary.aggregates
    ]
    return Table(
        "All tasks together.",
        "Scores are final returns on a scale where uniform replay with the same agent starts at 0 "
        "(its mean first evaluation) and ends at 1 (its mean final return); a task on which it "
        "does not end above its start is left out. Runs are resampled within each task.",
        ("method", "tasks", "IQM of the scores", "P(better than uniform)"),
        tuple(rows),
        _agent_starts([aggregate.entry for aggregate in summary.aggregates]),
    )


def provenance_table(methods: Sequence[Method]) -> Table:
    """Runs that were made alike share a row."""
    groups: dict[tuple[str, ...], list[Method]] = {}
    for method in methods:
        groups.setdefault((method.task, *_circumstances(method)), []).append(method)
    rows = [
        tuple(
            Text(words or "not recorded")
            for words in (", ".join(one.title for one in group), *circumstances, _wall_time(group))
        )
        for circumstances, group in groups.items()
    ]
    return Table(
        "Circumstances",
        "as the runs recorded them.",
        ("methods", "task", "commit", "hardware", "versions", "command", "wall time"),
        tuple(rows),
    )


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
    if interval is None or not np.isfinite(interval.value):
        return Text("–")
    value, low, high = (format(number, form) for number in interval.as_floats())
    return Text(value, f"{low} to {high}") if interval.is_bounded() else Text(value)


def efficiency_text(interval: Interval | None) -> Text:
    """A factor; 0 stands for a level that was never reached."""
    if interval is None or not np.isfinite(interval.value):
        return Text("–")
    value, low, high = (f"{number:.2f}×" if number else "never" for number in interval.as_floats())
    shown = "not reached" if value == "never" else value
    return Text(shown, f"{low} to {high}") if interval.is_bounded() else Text(shown)


def _spread(cell: Cell, metric: str) -> str:
    if cell.run is None:
        return NOT_RUN if cell.planned else NOT_PLANNED
    values = METRICS[metric](cell.run.curves)
    return spread(values) if np.isfinite(values).all() else "not finite"


def markdown(tables: dict[str, list[Table]]) -> str:
    return "\n".join(table.markdown() for section in tables.values() for table in section)
