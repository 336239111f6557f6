"""`lfiw report`: one page, figures and tables from method folders and stored results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lfiw.errors import InputError
from lfiw.report.export import aggregates_csv, cells_csv
from lfiw.report.figures import write_figures
from lfiw.report.page import Preface, make_page
from lfiw.report.summary import Summary, summarise
from lfiw.report.tables import all_tables, markdown
from lfiw.results.method import Method
from lfiw.results.methods import read_methods
from lfiw.runs.layout import CONFIG


def write_report(
    sources: Sequence[str | Path],
    out: str | Path,
    names: Sequence[str] = (),
    note: Callable[[str], None] = lambda sentence: None,
    env_steps: int | None = None,
    task: str = "",
    baseline: str = "",
    preface: Preface | None = None,
) -> list[Path]:
    """A page, figures and tables about the runs at or below the sources, written to a folder.

    Args:
        sources: Method folders, stored results, logs of other libraries, or folders that hold some;
            `"METHOD=PATH"` names whose logs they are.
        out: The folder; its files of these names are replaced, and nothing else.
        names: Methods to compare; all where it is empty.
        note: Called with each sentence about what was left out or may mislead.
        env_steps: Compare the first so many environment steps alone.
        task: The task of other libraries' logs.
        baseline: The method that the others are compared with; uniform replay where it is empty.
        preface: What stands on the page before the results.

    Returns:
        The files, the page first.
    """
    folder = Path(out)
    if (folder / CONFIG).is_file():
        raise InputError(f"{out} is a method folder: choose another one for the report.")
    methods = read_methods(sources, names, note, env_steps, task)
    summary = summarise(methods, baseline)
    texts = make_texts(methods, summary, preface)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
        figures = write_figures(methods, summary, folder)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}.") from None
    return [*(folder / name for name in texts), *figures]


def make_texts(
    methods: Sequence[Method], summary: Summary, preface: Preface | None = None
) -> dict[str, str]:
    """The files of a report that are text, by name."""
    tables = all_tables(summary, methods)
    return {
        "index.html": make_page(methods, summary, tables, preface),
        "tables.md": markdown(tables),
        "cells.csv": cells_csv(summary),
        "aggregates.csv": aggregates_csv(summary),
    }
