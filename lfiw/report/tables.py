"""The tables of a report, each as HTML and Markdown, and their numbers as CSV. No jax here."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from lfiw.curves import spread
from lfiw.report.summary import METRICS, Cell, Summary
from lfiw.results import Method
from lfiw.statistics import Interval

NOT_RUN = "not run"
BEST = "★"
HEADINGS = {"maximum": "maximum", "final": "final", "area": "area under the curve"}
EXPLANATIONS = {
    "maximum": "each seed's best evaluation, the paper's number; it grows with the number of "
    "evaluations",
    "final": "each seed's mean over its last ten evaluations (a tenth of a shorter curve)",
    "area": "each seed's mean return over training",
}


@dataclass(frozen=True)
class Text:
    """The content of a cell; `note` is set small, below."""

    words: str
    note: str = ""
    best: bool = False


@dataclass(frozen=True)
class Table:
    title: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]

    def html(self) -> str:
        head = "".join(f'<th scope="col">{escape(words)}</th>' for words in self.header)
        body = "".join(f"<tr>{_html_row(row)}</tr>" for row in self.rows)
        return (
            f"<figure><figcaption><strong>{escape(self.title)}</strong> {escape(self.caption)}"
            f'</figcaption><div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div></figure>"
        )

    def markdown(self) -> str:
        lines = [self.header, ("---",) * len(self.header)]
        lines += [tuple(map(_markdown_cell, row)) for row in self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"**{self.title}** {self.caption}\n\n{table}\n"


def _html_row(row: Sequence[Text]) -> str:
    first, *rest = row
    cells = [f'<th scope="row">{escape(first.words)}</th>']
    for text in rest:
        words = escape(text.words)
        mark = f'<span class="best" title="highest mean"> {BEST}</span>' if text.best else ""
        words = f"<strong>{words}</strong>{mark}" if text.best else words
        note = f"<small>{escape(text.note)}</small>" if text.note else ""
        empty = ' class="empty"' if text.words == NOT_RUN else ""
        cells.append(f"<td{empty}>{words}{note}</td>")
    return "".join(cells)


def _markdown_cell(text: Text) -> str:
    words = text.words.replace("|", "\\|").replace("<", "&lt;")
    words = f"**{words}** {BEST}" if text.best else words
    return f"{words} ({text.note})" if text.note else words


def all_tables(summary: Summary, methods: Sequence[Method]) -> dict[str, list[Table]]:
    """By section: the paper's form, each task, all tasks together, what was run."""
    return {
        "overview": [overview_table(summary, metric) for metric in METRICS],
        "tasks": [task_table(summary, task) for task in summary.tasks],
        "aggregate": [aggregate_table(summary)] if summary.aggregates else [],
        "provenance": [provenance_table(methods)],
    }


def overview_table(summary: Summary, metric: str) -> Table:
    """The paper's form: a row per method, a column per task."""
    rows = [
        (
            Text(entry.title),
            *(_overview_text(summary.cells[task, entry.name], metric) for task in summary.frame),
        )
        for entry in summary.entries
    ]
    return Table(
        f"{HEADINGS[metric].capitalize()}.",
        f"Mean ± standard deviation over seeds of {EXPLANATIONS[metric]}. "
        f"{BEST}: the agent's highest mean.",
        ("method", *summary.frame),
        tuple(rows),
    )


def _overview_text(cell: Cell, metric: str) -> Text:
    notes = [] if cell.complete else [_steps_note(cell)]
    if metric == "maximum" and cell.published:
        notes.append(f"paper {cell.published.mean:,.0f} ± {cell.published.std:,.0f}")
    return Text(_spread(cell, metric), ", ".join(notes), metric in cell.best)


def task_table(summary: Summary, task: str) -> Table:
    """Everything about one task."""
    rows = [_task_row(summary.cells[task, entry.name]) for entry in summary.entries]
    return Table(
        f"{task}.",
        "Mean ± standard deviation over seeds; IQM, probability of improvement and sample "
        "efficiency with 95 % bootstrap intervals, of the final return, against uniform replay "
        "with the same agent.",
        (
            *("method", "seeds", "steps", *HEADINGS.values(), "paper, maximum (-v2)"),
            *("IQM of final", "P(better than uniform)", "sample efficiency"),
        ),
        tuple(rows),
    )


def _task_row(cell: Cell) -> tuple[Text, ...]:
    paper = f"{cell.published.mean:,.0f} ± {cell.published.std:,.0f}" if cell.published else "–"
    if cell.run is None:
        nothing = Text("–")
        metrics = [Text(NOT_RUN)] * len(METRICS)
        return (Text(cell.entry.title), nothing, nothing, *metrics, Text(paper), *[nothing] * 3)
    curves = cell.run.curves
    return (
        Text(cell.entry.title),
        Text(str(len(curves.seeds))),
        Text(f"{curves.env_steps[-1]:,}", "" if cell.complete else "unfinished"),
        *(Text(_spread(cell, metric), best=metric in cell.best) for metric in METRICS),
        Text(paper),
        interval_text(cell.iqm, ",.0f"),
        interval_text(cell.improvement, ".2f"),
        efficiency_text(cell.efficiency),
    )


def aggregate_table(summary: Summary) -> Table:
    rows = [
        (
            Text(aggregate.entry.title),
            Text(str(len(aggregate.tasks)), ", ".join(aggregate.tasks)),
            interval_text(aggregate.iqm, ".3f"),
            interval_text(aggregate.improvement, ".2f"),
        )
        for aggregate in summary.aggregates
    ]
    return Table(
        "All tasks together.",
        "Scores are final returns on a scale where uniform replay with the same agent starts at 0 "
        "(its mean first evaluation) and ends at 1 (its mean final return). Runs are resampled "
        "within each task.",
        ("method", "tasks", "IQM of the scores", "P(better than uniform)"),
        tuple(rows),
    )


def provenance_table(methods: Sequence[Method]) -> Table:
    return Table(
        "What was run.",
        "Versions, hardware and command as the runs recorded them.",
        ("method", "task", "seeds", "wall time", "commit", "hardware", "versions", "command"),
        tuple(map(_provenance_row, methods)),
    )


def _provenance_row(method: Method) -> tuple[Text, ...]:
    seconds, hardware = method.wall_seconds, method.hardware
    device = hardware.get("device") or hardware.get("cpu") or ""
    cores = f", {hardware['cores']} cores" if "cores" in hardware else ""
    versions = ", ".join(f"{name} {version}" for name, version in method.versions.items())
    return tuple(
        Text(words or "not recorded")
        for words in (
            method.title,
            method.task,
            ", ".join(map(str, method.curves.seeds)),
            f"{seconds:,.0f} s" if seconds is not None else "",
            method.commit,
            f"{device}{cores}",
            versions,
            method.command,
        )
    )


def interval_text(interval: Interval | None, form: str) -> Text:
    if interval is None or not np.isfinite(interval.as_floats()).all():
        return Text("–")
    value, low, high = (format(number, form) for number in interval.as_floats())
    return Text(value, f"{low} to {high}")


def efficiency_text(interval: Interval | None) -> Text:
    """A factor; 0 stands for a level that was never reached."""
    if interval is None or not np.isfinite(interval.as_floats()).all():
        return Text("–")
    value, low, high = (f"{number:.2f}×" if number else "never" for number in interval.as_floats())
    return Text("not reached" if value == "never" else value, f"{low} to {high}")


def _spread(cell: Cell, metric: str) -> str:
    if cell.run is None:
        return NOT_RUN
    values = METRICS[metric](cell.run.curves)
    return spread(values) if np.isfinite(values).all() else "not finite"


def _steps_note(cell: Cell) -> str:
    return f"{cell.run.curves.env_steps[-1]:,} steps only" if cell.run else ""


def markdown(tables: dict[str, list[Table]]) -> str:
    return "\n".join(table.markdown() for section in tables.values() for table in section)


def cells_csv(summary: Summary) -> str:
    """Every cell as full numbers, one row each."""
    order = [(task, entry) for task in summary.frame for entry in summary.entries]
    return _csv([_numbers(summary.cells[task, entry.name]) for task, entry in order])


def _numbers(cell: Cell) -> dict[str, Any]:
    row: dict[str, Any] = {"task": cell.task, "method": cell.entry.name}
    row["status"] = NOT_RUN if cell.run is None else "run" if cell.complete else "unfinished"
    curves = cell.run.curves if cell.run else None
    row["seeds"] = len(curves.seeds) if curves else ""
    row["env_steps"] = curves.env_steps[-1] if curves else ""
    for metric, measure in METRICS.items():
        values = measure(curves) if curves else None
        row[f"{metric}_mean"] = "" if values is None else values.mean()
        row[f"{metric}_std"] = "" if values is None else values.std()
        row[f"{metric}_best"] = int(metric in cell.best) if curves else ""
    row["published_maximum_mean"] = cell.published.mean if cell.published else ""
    row["published_maximum_std"] = cell.published.std if cell.published else ""
    row |= _interval_columns("final_iqm", cell.iqm)
    row |= _interval_columns("improvement", cell.improvement)
    return row | _interval_columns("efficiency_ratio", cell.efficiency)


def aggregates_csv(summary: Summary) -> str:
    return _csv(
        [
            {"method": aggregate.entry.name, "tasks": " ".join(aggregate.tasks)}
            | _interval_columns("score_iqm", aggregate.iqm)
            | _interval_columns("improvement", aggregate.improvement)
            for aggregate in summary.aggregates
        ]
    )


def _interval_columns(name: str, interval: Interval | None) -> dict[str, Any]:
    numbers = interval.as_floats() if interval else ("", "", "")
    return dict(zip((name, f"{name}_low", f"{name}_high"), numbers, strict=True))


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _short(value: Any) -> Any:
    return f"{value:.7g}" if isinstance(value, float | np.floating) else value
