"""The tables of a store's README.md, and the commands that keep it. No jax here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from lfiw.curves import Curves, comparison_table
from lfiw.errors import InputError
from lfiw.files import write_whole
from lfiw.markdown import markdown_table
from lfiw.paper.table1 import PAPER_METHODS, PLANNED, paper_form, tasks_of
from lfiw.progress import duration
from lfiw.results import Method, read_methods
from lfiw.results_store import add_runs

BEGIN = "<!-- The tables below are rebuilt by `lfiw results add`. -->"
END = "<!-- End of the tables. -->"


def curves_by_cell(methods: Sequence[Method]) -> dict[tuple[str, str], Curves]:
    return {(method.task, method.name): method.curves for method in methods}


def provenance_table(methods: Sequence[Method]) -> str:
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
    return markdown_table([*headings, "commit", "date", "wall time"], rows)


def tables(methods: Sequence[Method]) -> str:
    return (
        f"{paper_form(curves_by_cell(methods))}\n### What was run\n\nWall time is from a method's "
        f"start to its end, with others beside it.\n\n{provenance_table(methods)}"
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


@dataclass
class Add:
    """Merge finished runs into the stored results, and rebuild their tables and report."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    """Run folders, or folders that hold some."""
    results: Path = Path("results")
    """The store."""
    commit: str | None = None
    """The commit that was run (default: what the run recorded)."""
    unfinished: bool = False
    """Add runs that were cut short too; the tables say how many steps they made."""

    def run(self, console: Console) -> None:
        if not self.runs:
            raise InputError("Name at least one run folder.")
        from lfiw.report import write_report

        written = add_runs(self.runs, self.results, self.commit, self.unfinished)
        written.append(rebuild_page(self.results))
        page, *_ = write_report([self.results], self.results / "report")
        for path in (*written, page):
            console.print(str(path), soft_wrap=True, highlight=False)


@dataclass
class Show:
    """Print the stored results, and which cells of the paper's table are not run yet."""

    results: Path = Path("results")
    """The store."""

    def run(self, console: Console) -> None:
        cells = curves_by_cell(read_methods([self.results]))
        for task in tasks_of(cells):
            curves = [own for (env, _), own in cells.items() if env == task]
            if curves:
                console.print(comparison_table(curves))
            missing = [m for m in PAPER_METHODS if (task, m) in PLANNED - cells.keys()]
            if missing:
                console.print(f"{task}, not run: {', '.join(missing)}", highlight=False)


COMMANDS: dict[str, Callable[..., Any]] = {"add": Add, "show": Show}
