"""The numbers of a report as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from lfiw.report.summary import Outcome, Summary
from lfiw.results.catalogue import MEASURES
from lfiw.results.curves import collapses
from lfiw.results.statistics import Interval
from lfiw.results.table import NOT_RUN
from lfiw.runs.rows import rounded
from lfiw.wording import deviation, no_formula


def cells_csv(summary: Summary) -> str:
    """Every outcome as full numbers, one row each."""
    return _csv([_numbers(one) for task in summary.frame for one in summary.outcomes_of(task)])


def _numbers(outcome: Outcome) -> dict[str, Any]:
    curves = outcome.method.curves if outcome.method else None
    row: dict[str, Any] = {"task": outcome.task, "method": outcome.entry.name}
    row["status"] = NOT_RUN if curves is None else "run" if outcome.complete else "unfinished"
    row["seeds"] = len(curves.seeds) if curves else None
    row["env_steps"] = curves.env_steps[-1] if curves else None
    for measure in MEASURES:
        values = measure.of(curves) if curves else None
        row[f"{measure.name}_mean"] = None if values is None else values.mean()
        row[f"{measure.name}_std"] = None if values is None else deviation(values)
        row[f"{measure.name}_best"] = int(measure.name in outcome.best) if curves else None
    row["published_maximum_mean"] = outcome.published.mean if outcome.published else None
    row["published_maximum_std"] = outcome.published.std if outcome.published else None
    row |= _interval_columns("final_iqm", outcome.iqm)
    row |= _interval_columns("improvement", outcome.improvement)
    row |= _interval_columns("improvement_on_lfiw", outcome.above_lfiw)
    row |= _interval_columns("efficiency_ratio", outcome.efficiency)
    row["collapses"] = collapses([curves]) if curves else None
    row["stopped"] = len(outcome.method.stopped_seeds) if outcome.method else None
    return row


def aggregates_csv(summary: Summary) -> str:
    """Every method over its tasks, then every strategy over tasks and agents."""
    return _csv(
        [
            {"method": aggregate.entry.name, "tasks": "; ".join(aggregate.tasks)}
            | _interval_columns("score_iqm", aggregate.iqm)
            | _interval_columns("area_iqm", aggregate.area)
            | _interval_columns("improvement", aggregate.improvement)
            | _interval_columns("improvement_on_lfiw", aggregate.above_lfiw)
            | {
                "collapses": collapses(aggregate.curves),
                "runs": sum(len(curves.seeds) for curves in aggregate.curves),
            }
            for aggregate in (*summary.aggregates, *summary.pooled)
        ]
    )


def _interval_columns(name: str, interval: Interval | None) -> dict[str, Any]:
    numbers = interval.as_floats() if interval else (None, None, None)
    return dict(zip((name, f"{name}_low", f"{name}_high"), numbers, strict=True))


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: no_formula(rounded(value)) for name, value in row.items()} for row in rows
    )
    return text.getvalue()
