"""The tables of a store's README.md: Table 1 in the paper's form, and what was run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lfiw.errors import Damaged, InputError
from lfiw.plain_files import read_plain
from lfiw.results.catalogue import (
    ENV_STEPS,
    MEASURES,
    PAPER_METHODS,
    PLANNED,
    TASKS,
    Measure,
    family_of,
)
from lfiw.results.curves import Curves
from lfiw.results.method import Method
from lfiw.results.methods import read_methods
from lfiw.results.published import published
from lfiw.results.store import EVALUATION_SETTINGS, evaluation_of
from lfiw.results.table import NOT_RUN, Table
from lfiw.runs.files import write_whole
from lfiw.wording import count, duration, spread

MAX_PAGE_BYTES = 2**24
BEGIN = "<!-- The tables below are rebuilt by `lfiw results add`. -->"
END = "<!-- End of the tables. -->"


def tasks_of(curves: Sequence[Curves]) -> list[str]:
    """The paper's, and others that were run."""
    return list(dict.fromkeys((*TASKS, *(curve.env for curve in curves))))


def measure_table(curves: Sequence[Curves], measure: Measure) -> Table:
    run = {(curve.env, curve.method): curve for curve in curves}

    def words(task: str, method: str) -> str:
        if (task, method) not in run:
            return NOT_RUN if (task, method) in PLANNED else "-"
        steps = int(run[task, method].env_steps[-1])
        as_long = steps == ENV_STEPS.get(family_of(task))
        return spread(measure.of(run[task, method])) + ("" if as_long else f" (at {steps:,} steps)")

    tasks = tasks_of(curves)
    methods = dict.fromkeys(name for _, name in (*PLANNED, *run))
    return Table(("", *tasks), [(name, *(words(task, name) for task in tasks)) for name in methods])


def published_table() -> Table:
    rows = [
        (method.name, *(str(published(family, method.name) or "-") for family in ENV_STEPS))
        for method in PAPER_METHODS
    ]
    return Table(("", *(f"{family}-v2" for family in ENV_STEPS)), rows)


def paper_form(curves: Sequence[Curves]) -> str:
    """Methods by tasks, beside the published numbers."""
    tables = {
        f"{measure.title.capitalize()}: {measure.explanation}": measure_table(curves, measure)
        for measure in MEASURES
    }
    tables["The paper's Table 1 (maximum, -v2, 5 seeds)"] = published_table()
    parts = (f"\n### {title}\n\n{table.markdown()}" for title, table in tables.items())
    return "".join(("Mean ± standard deviation over seeds, that of a sample (n - 1).\n", *parts))


def runs_table(methods: Sequence[Method]) -> Table:
    rows = []
    for method in methods:
        curves, record = method.curves, method.record
        hardware, versions = method.hardware, method.versions
        wall = method.wall_seconds
        rows.append(
            [
                *(method.task, method.name, f"{curves.env_steps[-1]:,}"),
                ", ".join(map(str, curves.seeds)),
                evaluations_text(record),
                f"{hardware.get('device', '')}, {hardware.get('cores', '?')} cores",
                f"jax {versions.get('jax')}, gymnasium {versions.get('gymnasium')}, "
                f"mujoco {versions.get('mujoco')}",
                *(record.get("commit") or "unknown", (record.get("date") or "unknown")[:10]),
                "unknown" if wall is None else duration(wall),
            ]
        )
    headings = ("task", "method", "environment steps", "seeds", "evaluations", "hardware")
    return Table((*headings, "versions", "commit", "date", "wall time"), rows)


def evaluations_text(record: dict[str, Any]) -> str:
    """How the seeds were evaluated; seeds that were evaluated in other ways are named."""
    earlier = [
        (evaluation_text(run.get("evaluation", {})), run["seeds"])
        for run in record.get("earlier_runs", ())
    ]
    seeds = sorted(set(record["config"]["seeds"]) - {one for _, own in earlier for one in own})
    ways: dict[str, list[int]] = {evaluation_text(evaluation_of(record["config"])): seeds}
    for way, own in earlier:
        ways[way] = sorted({*ways.get(way, ()), *own})
    if len(ways) == 1:
        return next(iter(ways))
    return "; ".join(f"{way} (seeds {', '.join(map(str, own))})" for way, own in ways.items())


def evaluation_text(evaluation: dict[str, Any]) -> str:
    """Such as '5 episodes every 10,000 steps, varied starts'."""
    try:
        every, episodes, starts = (evaluation[name] for name in EVALUATION_SETTINGS)
        return f"{count(episodes, 'episode')} every {every:,} steps, {starts} starts"
    except (KeyError, TypeError, ValueError):
        return "unknown"


def tables(methods: Sequence[Method]) -> str:
    return (
        f"{paper_form([method.curves for method in methods])}\n### What was run\n\n"
        "Varied starts: every evaluation has reset seeds of its own, the same for all methods; "
        "fixed starts: all evaluations of a seed share theirs, as in runs of older versions. Wall "
        "time is from a method's start to its end, with others beside it.\n\n"
        f"{runs_table(methods).markdown()}"
    )


def read_page(path: Path) -> str:
    try:
        return read_plain(path, MAX_PAGE_BYTES).decode()
    except (Damaged, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def rebuild_page(store: Path) -> Path:
    """Write the tables between their marks; the rest of the page is the author's."""
    path = store / "README.md"
    page = read_page(path) if path.exists() else "# Results\n"
    if BEGIN not in page:
        page = f"{page.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise InputError(f"{path} has lost its mark {END!r} after the tables.")
    content = f"{before}{BEGIN}\n\n{tables(read_methods([store]))}\n{END}{after}"
    write_whole(path, content.encode(errors="replace"))  # half of the author's text would be a loss
    return path
