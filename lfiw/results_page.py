"""The tables of a store's README.md, and the commands that keep it. No jax here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console

from lfiw.curves import Curves, comparison_table, spread
from lfiw.errors import InputError
from lfiw.markdown import markdown_table
from lfiw.paper.published import ENV_STEPS, METHODS, family_of, published
from lfiw.progress import duration
from lfiw.results_store import add_runs, read_store

BEGIN = "<!-- The tables below are rebuilt by `lfiw results add`. -->"
END = "<!-- End of the tables. -->"
NOT_RUN, NOT_PLANNED = "not run", "-"
PAPER_TASKS = tuple(f"{family}-v5" for family in ENV_STEPS)
PAPER_METHODS = (*METHODS[:4], "sac-lfiw-power", *METHODS[4:], "td3-lfiw-power")
PLANNED = {
    (task, method)
    for task in PAPER_TASKS
    for method in PAPER_METHODS
    if not (task.startswith("Humanoid") and method.startswith("td3"))  # as in the paper
}
MEASURES: dict[str, Callable[[Curves], np.ndarray]] = {
    "Maximum: each seed's best evaluation, the paper's number": Curves.maximum,
    "Final: each seed's mean over its last ten evaluations": Curves.final,
    "Area under the curve: each seed's mean return over training": Curves.area,
}

Stored = dict[tuple[str, str], tuple[Curves, dict[str, Any]]]


def tasks_of(stored: Stored) -> list[str]:
    return list(dict.fromkeys((*PAPER_TASKS, *(task for task, _ in stored))))


def methods_of(stored: Stored) -> list[str]:
    return list(dict.fromkeys((*PAPER_METHODS, *(method for _, method in stored))))


def length_note(curves: Curves) -> str:
    """The length of a run, where it is not the paper's."""
    steps = int(curves.env_steps[-1])
    return "" if steps == ENV_STEPS.get(family_of(curves.env)) else f" (at {steps:,} steps)"


def measure_table(stored: Stored, measure: Callable[[Curves], np.ndarray]) -> str:
    def cell(task: str, method: str) -> str:
        if (task, method) in stored:
            curves, _ = stored[task, method]
            return spread(measure(curves)) + length_note(curves)
        return NOT_RUN if (task, method) in PLANNED else NOT_PLANNED

    tasks = tasks_of(stored)
    rows = [[method, *(cell(task, method) for task in tasks)] for method in methods_of(stored)]
    return markdown_table(["", *tasks], rows)


def published_table() -> str:
    def cell(task: str, method: str) -> str:
        number = published(task, method)
        return f"{number.mean:,.0f} ± {number.std:,.0f}" if number else NOT_PLANNED

    rows = [[method, *(cell(task, method) for task in PAPER_TASKS)] for method in METHODS]
    return markdown_table(["", *(f"{family}-v2" for family in ENV_STEPS)], rows)


def provenance_table(stored: Stored) -> str:
    rows = []
    for (task, method), (curves, record) in stored.items():
        hardware, versions = record.get("hardware", {}), record.get("versions", {})
        wall = record.get("wall_seconds")
        rows.append(
            [
                *(task, method, f"{curves.env_steps[-1]:,}", ", ".join(map(str, curves.seeds))),
                f"{hardware.get('device', '')}, {hardware.get('cores', '?')} cores",
                f"jax {versions.get('jax')}, gymnasium {versions.get('gymnasium')}, "
                f"mujoco {versions.get('mujoco')}",
                *(record.get("commit") or "unknown", (record.get("date") or "unknown")[:10]),
                "unknown" if wall is None else duration(wall),
            ]
        )
    headings = ("task", "method", "environment steps", "seeds", "hardware", "versions")
    return markdown_table([*headings, "commit", "date", "wall time"], rows)


def tables(stored: Stored) -> str:
    parts = ["Mean ± standard deviation over seeds."]
    parts += [
        f"### {title}\n\n{measure_table(stored, measure)}" for title, measure in MEASURES.items()
    ]
    parts.append(f"### The paper's Table 1 (maximum, -v2, 5 seeds)\n\n{published_table()}")
    parts.append(
        "### What was run\n\nWall time is that of all methods that trained side by side.\n\n"
        + provenance_table(stored)
    )
    return "\n\n".join(part.rstrip("\n") for part in parts)


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
    content = f"{before}{BEGIN}\n\n{tables(read_store(store))}\n\n{END}{after}"
    path.write_text(content, encoding="utf-8")
    return path


@dataclass
class Add:
    """Merge finished runs into the stored results and rebuild their tables."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    """Run folders, or folders that hold some."""
    results: Path = Path("results")
    """The store."""
    commit: str | None = None
    """The commit that was run (default: what the run recorded)."""

    def run(self, console: Console) -> None:
        if not self.runs:
            raise InputError("Name at least one run folder.")
        for path in (*add_runs(self.runs, self.results, self.commit), rebuild_page(self.results)):
            console.print(str(path), soft_wrap=True, highlight=False)


@dataclass
class Show:
    """Print the stored results, and which cells of the paper's table are not run yet."""

    results: Path = Path("results")
    """The store."""

    def run(self, console: Console) -> None:
        stored = read_store(self.results)
        if not stored:
            raise InputError(f"{self.results} holds no results.")
        for task in tasks_of(stored):
            curves = [curve for (env, _), (curve, _) in stored.items() if env == task]
            if curves:
                console.print(comparison_table(curves))
            missing = [m for m in PAPER_METHODS if (task, m) in PLANNED - stored.keys()]
            if missing:
                console.print(f"{task}, not run: {', '.join(missing)}", highlight=False)


COMMANDS: dict[str, Callable[..., Any]] = {"add": Add, "show": Show}
