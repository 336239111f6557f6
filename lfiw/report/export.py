"""The numbers of a report as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from lfiw.report.summary import METRICS, Cell, Summary
from lfiw.results.statistics import Interval
from lfiw.results.table import NOT_RUN
from lfiw.runs.rows import rounded


def cells_csv(summary: Summary) -> str:
    """Every cell as full numbers, one row each."""
    return _csv([_numbers(cell) for task in summary.frame for cell in summary.cells_of(task)])


def _numbers(cell: Cell) -> dict[str, Any]:
    row: dict[str, Any] = {"task": cell.task, "method": cell.entry.name}
    row["status"] = NOT_RUN if cell.run is None else "run" if cell.complete else "unfinished"
    curves = cell.run.curves if cell.run else None
    row["seeds"] = len(curves.seeds) if curves else None
    row["env_steps"] = curves.env_steps[-1] if curves else None
    for metric, measure in METRICS.items():
        values = measure(curves) if curves else None
        row[f"{metric}_mean"] = None if values is None else values.mean()
        row[f"{metric}_std"] = None if values is None else values.std()
        row[f"{metric}_best"] = int(metric in cell.best) if curves else None
    row["published_maximum_mean"] = cell.published.mean if cell.published else None
    row["published_maximum_std"] = cell.published.std if cell.published else None
    row |= _interval_columns("final_iqm", cell.iqm)
    row |= _interval_columns("improvement", cell.improvement)
    return row | _interval_columns("efficiency_ratio", cell.efficiency)


def aggregates_csv(summary: Summary) -> str:
    return _csv(
        [
            {"method": aggregate.entry.name, "tasks": "; ".join(aggregate.tasks)}
            | _interval_columns("score_iqm", aggregate.iqm)
            | _interval_columns("improvement", aggregate.improvement)
            for aggregate in summary.aggregates
        ]
    )


def _interval_columns(name: str, interval: Interval | None) -> dict[str, Any]:
    numbers = interval.as_floats() if interval else (None, None, None)
    return dict(zip((name, f"{name}_low", f"{name}_high"), numbers, strict=True))


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: rounded(value) for name, value in row.items()} for row in rows)
    return text.getvalue()
