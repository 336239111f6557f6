"""`lfiw results`: the options are the fields."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console

from lfiw.cli.options import Command, Flag, Folders, unset
from lfiw.errors import InputError


@dataclass
class ResultsAdd(Command):
    """Merge finished runs into the stored results, and rebuild their tables and report."""

    folders: Folders
    """Method folders, or folders that hold some."""
    results: Path = Path("results")
    """The store."""
    commit: Annotated[str | None, unset("STR", "what the run recorded")] = None
    """The commit that was run."""
    unfinished: Flag = False
    """Add runs that were cut short too; the tables say how many steps they made."""

    def run(self, console: Console) -> None:
        if not self.folders:
            raise InputError("Name at least one method folder.")
        from lfiw.report import write_report
        from lfiw.results.readme import rebuild_page
        from lfiw.results.store import add_runs

        written = add_runs(self.folders, self.results, self.commit, self.unfinished)
        written.append(rebuild_page(self.results))
        page, *_ = write_report([self.results], self.results / "report")
        for path in (*written, page):
            console.print(str(path), soft_wrap=True, highlight=False)


@dataclass
class ResultsShow(Command):
    """Print the stored results, and which cells of the paper's table are not run yet."""

    results: Path = Path("results")
    """The store."""

    def run(self, console: Console) -> None:
        from lfiw.results import read_methods
        from lfiw.results.catalogue import PLANNED
        from lfiw.results.curves import comparison_table
        from lfiw.results.readme import tasks_of

        curves = [method.curves for method in read_methods([self.results])]
        for task in tasks_of(curves):
            own = [curve for curve in curves if curve.env == task]
            if own:
                console.print(comparison_table(own))
            run = {curve.method for curve in own}
            missing = [name for env, name in PLANNED if env == task and name not in run]
            if missing:
                console.print(f"{task}, not run: {', '.join(missing)}", highlight=False)
