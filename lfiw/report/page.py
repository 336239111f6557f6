"""The page of a report: one HTML file with everything inside."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lfiw import __version__
from lfiw.report.summary import Aggregate, Summary
from lfiw.results.catalogue import AGES, looks
from lfiw.results.method import Method
from lfiw.results.statistics import Interval
from lfiw.results.table import Table
from lfiw.runs.metrics import METRICS, WITH_FIGURE
from lfiw.runs.rows import rounded
from lfiw.wording import count

MAX_POINTS = 250  # of a curve on the page; tables use every evaluation
DIGITS = 5
DASHES = {"-": "", "--": "7 4", "-.": "9 3 2 3", ":": "2 3"}
NOTHING_TO_COMPARE = (
    "Nothing is scored here: a score needs {base} with the same {agent}task and length, "
    "and that it has learned something."
)


class Chapter(NamedTuple):
    """What stands before the results on a page."""

    title: str
    text: str
    picture: Path | None = None  # a PNG file
    table: Table | None = None


class Preface(NamedTuple):
    title: str  # of the page
    chapters: Sequence[Chapter]


def make_page(
    methods: Sequence[Method],
    summary: Summary,
    tables: dict[str, list[Table]],
    preface: Preface | None = None,
) -> str:
    tasks = summary.tasks
    subject = "Experience replay" if summary.has_own else "Learning curves"
    title = f"{subject} on {', '.join(tasks) if len(tasks) < 3 else f'{len(tasks)} tasks'}"
    chapters = preface.chapters if preface else ()
    parts = {
        "title": escape(preface.title if preface else title),
        "chapters": "".join(map(_chapter, chapters)),
        "records": "Exact configurations" if summary.has_own else "Where the logs are",
        "base": escape(summary.base),
        "baseline": escape(summary.baseline or "uniform"),
        "own_agent": summary.own_agent,
        "lead": escape(_lead(methods, summary)),
        "version": escape(__version__),
        "css": _asset("page.css"),
        "charts_js": _asset("charts.js"),
        "page_js": _asset("page.js"),
        "data": embed(_data(methods, summary)),
        "coverage": f"<p>{escape(text)}</p>" if (text := coverage(summary)) else "",
        "overview": "".join(table.html() for table in tables["overview"]),
        "tasks": "".join(
            _task_section(index, task, table)
            for index, (task, table) in enumerate(zip(summary.tasks, tables["tasks"], strict=True))
        ),
        "aggregate": "".join(table.html() for table in tables["aggregate"]),
        "provenance": "".join(table.html() for table in tables["provenance"]),
        "configs": "".join(map(_config_details, methods)),
    }
    # One pass: what is filled in is never searched for further places.
    template = _asset("page.html")
    if not summary.has_own:
        template = re.sub(r"<!-- lfiw -->.*?<!-- end -->\n?", "", template, flags=re.DOTALL)
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _asset(name: str) -> str:
    return resources.files("lfiw.report").joinpath(name).read_text(encoding="utf-8")


def embed(data: Any) -> str:
    """JSON that may stand inside a script element, whatever its texts contain."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _lead(methods: Sequence[Method], summary: Summary) -> str:
    runs = sum(len(method.curves.seeds) for method in methods)
    steps = sum(len(method.curves.seeds) * int(method.curves.env_steps[-1]) for method in methods)
    names = len({method.name for method in methods})
    return (
        f"{count(runs, 'run')} of {count(names, 'method')} on "
        f"{count(len(summary.tasks), 'task')}, {steps:,} environment steps in all."
    )


def coverage(summary: Summary) -> str:
    """A warning where there are no scores, or where they are of different tasks."""
    if not (aggregates := summary.aggregates):
        agent = "agent, " if summary.own_agent else ""
        return NOTHING_TO_COMPARE.format(base=summary.base, agent=agent)
    by_tasks: dict[tuple[str, ...], list[str]] = {}
    for aggregate in aggregates:
        by_tasks.setdefault(aggregate.tasks, []).append(aggregate.entry.title)
    if len(by_tasks) < 2:
        return ""
    groups = (f"{', '.join(titles)}: {', '.join(tasks)}." for tasks, titles in by_tasks.items())
    return (
        "Not all methods were run on the same tasks, and scores over different tasks do not "
        f"compare. {' '.join(groups)}"
    )


def _chapter(chapter: Chapter) -> str:
    """Its picture is inside the page, as all else."""
    picture = ""
    if chapter.picture:
        data = base64.b64encode(chapter.picture.read_bytes()).decode()
        source = f"data:image/png;base64,{data}"
        picture = f'<div class="scroll"><img class="picture" src="{source}" alt=""></div>'
    table = chapter.table.html() if chapter.table else ""
    return (
        f"<section><h2>{escape(chapter.title)}</h2><p>{escape(chapter.text)}</p>"
        f"{picture}{table}</section>"
    )


def _task_section(index: int, task: str, table: Table) -> str:
    return (
        f'<article class="task" id="task-{index}" data-task="{index}"><h3>{escape(task)}</h3>'
        f'<div class="charts"></div>{table.html()}</article>'
    )


def _config_details(method: Method) -> str:
    heading = f"{escape(method.task)} · {escape(method.title)} <code>{escape(method.name)}</code>"
    record = {name: value for name, value in method.record.items() if value != {}}
    text = escape(json.dumps(record, indent=2, ensure_ascii=False))
    return f"<details><summary>{heading}</summary><pre>{text}</pre></details>"


def _data(methods: Sequence[Method], summary: Summary) -> dict[str, Any]:
    """What the charts are drawn from."""
    titles = {method.curves.strategy: method.strategy_title for method in methods}
    styles = looks(titles)
    return {
        "looks": {
            name: _look(title, styles[name].colour, DASHES[styles[name].style], styles[name].marker)
            for name, title in titles.items()
        },
        "base": summary.base,
        "own_agent": summary.own_agent,
        "ages": [_look(*age) for age in AGES],
        "diagnostics": [metric._asdict() for metric in WITH_FIGURE],
        "seeds": sorted({seed for method in methods for seed in method.curves.seeds}),
        "tasks": [
            {
                "name": task,
                "methods": [_method_data(method) for method in methods if method.task == task],
            }
            for task in summary.tasks
        ],
        "thresholds": numbers(summary.thresholds),
        "aggregates": [_aggregate_data(aggregate, methods) for aggregate in summary.aggregates],
    }


def _look(title: str, colour: str, dash: str, marker: str = "") -> dict[str, str]:
    return {"title": title, "colour": colour, "dash": dash, "marker": marker}


def _method_data(method: Method) -> dict[str, Any]:
    curves = method.curves
    size = len(curves.env_steps)
    kept = np.unique(np.linspace(0, size - 1, min(size, MAX_POINTS)).round().astype(int))
    found, columns = method.diagnostics, METRICS["weight_by_age"].columns
    ages = [found[name].mean(axis=0)[kept] for name in columns if name in found]
    return {
        "title": method.title,
        "agent": method.agent,
        "strategy": curves.strategy,
        "seeds": list(curves.seeds),
        "steps": curves.env_steps[kept].tolist(),
        "returns": numbers(curves.returns[:, kept]),
        "diagnostics": {
            m.name: numbers(found[m.name][:, kept]) for m in WITH_FIGURE if m.name in found
        },
        "ages": numbers(np.array(ages)),
    }


def _aggregate_data(aggregate: Aggregate, methods: Sequence[Method]) -> dict[str, Any]:
    strategies = {method.name: method.curves.strategy for method in methods}
    return {
        "title": aggregate.entry.title,
        "agent": aggregate.entry.agent,
        "strategy": strategies[aggregate.entry.name],
        "iqm": _interval(aggregate.iqm),
        "improvement": _interval(aggregate.improvement),
        "profile": _interval(aggregate.profile),
    }


def _interval(interval: Interval | None) -> list[Any] | None:
    if interval is None:
        return None
    return [numbers(part) for part in (interval.value, interval.low, interval.high)]


def numbers(values: np.ndarray | float) -> Any:
    """Short enough to embed; what is not finite is null."""
    return rounded(np.asarray(values, float), DIGITS)
