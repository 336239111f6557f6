"""The tables of a store's README.md: Table 1 in the paper's form, and what was run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lfiw.errors import InputError
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
from lfiw.results.methods import Method, read_methods
from lfiw.results.published import published
from lfiw.results.table import NOT_RUN, Table
from lfiw.runs.files import write_whole
from lfiw.wording import duration, spread

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
        (name, *(str(published(family, name) or "-") for family in ENV_STEPS))
        for name in PAPER_METHODS
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
    return "".join(("Mean ± standard deviation over seeds.\n", *parts))


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
                f"{hardware.get('device', '')}, {hardware.get('cores', '?')} cores",
                f"jax {versions.get('jax')}, gymnasium {versions.get('gymnasium')}, "
                f"mujoco {versions.get('mujoco')}",
                *(record.get("commit") or "unknown", (record.get("date") or "unknown")[:10]),
                "unknown" if wall is None else duration(wall),
            ]
        )
    headings = ("task", "method", "environment steps", "seeds", "hardware", "versions")
    return Table((*headings, "commit", "date", "wall time"), rows)


def tables(methods: Sequence[Method]) -> str:
    return (
        f"{paper_form([method.curves for method in methods])}\n### What was run\n\n"
        "Wall time is from a method's start to its end, with others beside it.\n\n"
        f"{runs_table(methods).markdown()}"
    )


def rebuild_page(store: Path) -> Path:
    """Write the tables between their marks; the rest of the page is the author's."""
    path = store / "README.md"
    page = path.read_text(encoding="utf-8") if path.is_file() else "# Results\n"
    if BEGIN not in page:
        page = f"{page.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise InputError(f"{path} has lost its mark {END!r} after the tables.")
    content = f"{before}{BEGIN}\n\n{tables(read_methods([store]))}\n{END}{after}"
    write_whole(path, content.encode(errors="replace"))  # half of the author's text would be a loss
    return path
