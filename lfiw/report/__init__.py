"""`lfiw report`: one page, figures and tables from run folders and stored results. No jax here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lfiw.errors import InputError
from lfiw.report.figures import write_figures
from lfiw.report.page import make_page
from lfiw.report.summary import summarise
from lfiw.report.tables import aggregates_csv, all_tables, cells_csv, markdown
from lfiw.results import read_methods


def write_report(sources: Sequence[str | Path], out: str | Path) -> list[Path]:
    """Everything about the runs at or below the sources, written to a folder; the page first."""
    methods = read_methods(sources)
    summary = summarise(methods)
    tables = all_tables(summary, methods)
    contents = {
        "index.html": make_page(methods, summary, tables),
        "tables.md": markdown(tables),
        "cells.csv": cells_csv(summary),
        "aggregates.csv": aggregates_csv(summary),
    }
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_text(content, encoding="utf-8")
        figures = write_figures(methods, summary, folder)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}.") from None
    return [*(folder / name for name in contents), *figures]
