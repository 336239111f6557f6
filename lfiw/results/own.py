"""Methods of our own: read back from method folders, and from the store below `results/`.

A store's folder holds one task: `curves.csv`, a row per method, seed and evaluation, and
`METHOD.json` with what was recorded of each method.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lfiw.errors import Damaged, InputError, NothingYet
from lfiw.plain_files import read_lines
from lfiw.results.curves import column, make_curves, rows_by_seed
from lfiw.results.method import Method, task_name
from lfiw.runs.config_file import read_config_file
from lfiw.runs.files import short_int
from lfiw.runs.layout import CONFIG, folders_below, parts_of
from lfiw.runs.metrics import DIAGNOSTICS
from lfiw.runs.read import read_metrics
from lfiw.runs.rows import Row
from lfiw.wording import one_line

CURVES_FILE = "curves.csv"
MAX_TABLE_BYTES = 2**28  # 1.5 million evaluations
MAX_LINE_BYTES = 2**16
PLAIN_DIAGNOSTICS = [metric.name for metric in DIAGNOSTICS if not metric.size]
LISTED_DIAGNOSTICS = [metric for metric in DIAGNOSTICS if metric.size]
DIAGNOSTIC_COLUMNS = tuple(column for metric in DIAGNOSTICS for column in metric.columns)


def sources_below(path: Path) -> list[Path]:
    """Method folders and the curves of stores at or below a path."""
    return [*folders_below(path), *sorted(path.glob(f"**/{CURVES_FILE}"))]


def read_source(source: Path) -> list[Method] | NothingYet:
    try:
        return list(_read_store(source)) if source.name == CURVES_FILE else [_read_run(source)]
    except NothingYet as error:
        return error


def _read_run(folder: Path) -> Method:
    rows, stopped = evaluations_and_stopped(folder)
    method = _make_method(folder.resolve().name, rows, folder / CONFIG, folder)
    if not stopped:
        return method
    return replace(method, record=method.record | {"stopped_seeds": sorted(stopped)})


def evaluation_rows(folder: Path) -> list[Row]:
    """The evaluations of a method folder, each with the diagnostics of the phase before it."""
    return evaluations_and_stopped(folder)[0]


def evaluations_and_stopped(folder: Path) -> tuple[list[Row], set[int]]:
    """The evaluations, and the seeds that were given up, which have none; in one reading."""
    latest: dict[int, Row] = {}
    evaluations: list[Row] = []
    stopped: set[int] = set()
    for part in parts_of(folder):
        for row in read_metrics(part):
            if row["kind"] == "train":
                latest[row["seed"]] = row
            elif row["kind"] == "eval":
                evaluations.append(diagnostics_of(latest.get(row["seed"], {})) | row)
            elif row["kind"] == "stopped":
                stopped.add(row["seed"])
    return [row for row in evaluations if row["seed"] not in stopped], stopped


def diagnostics_of(row: Row) -> Row:
    """The diagnostics of a training row under the names of their columns."""
    found = {name: row[name] for name in PLAIN_DIAGNOSTICS if name in row}
    for metric in LISTED_DIAGNOSTICS:
        if isinstance(values := row.get(metric.name), list):
            found |= zip(metric.columns, values, strict=False)
    return {name: value for name, value in found.items() if type(value) in (int, float)}


def stored_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a store's table, as text that can be read as numbers."""
    rows = []
    try:
        lines = read_lines(path, MAX_TABLE_BYTES, MAX_LINE_BYTES)
        for row in csv.DictReader(line.decode() for line in lines):
            _numbers(row)
            rows.append(row)
    except (Damaged, KeyError, TypeError, ValueError, csv.Error) as error:
        reason = one_line(repr(error), longest=200)
        raise InputError(f"{path} is not a table of evaluations: {reason}.") from None
    return rows


def _read_store(path: Path) -> Iterator[Method]:
    by_method: dict[str, list[Row]] = {}
    for row in stored_rows(path):
        by_method.setdefault(row["method"], []).append(_numbers(row))
    for name, rows in by_method.items():
        record = path.parent / f"{name}.json"
        if not record.is_file():
            raise InputError(f"{path} has rows of {name}, but {record} is missing.")
        yield _make_method(name, rows, record, path.parent)


def _numbers(row: dict[str, str]) -> Row:
    """The columns that are read, as numbers but for the name; an empty one is absent."""
    values: Row = {name: short_int(row[name]) for name in ("seed", "env_steps")}
    values["method"] = row["method"]
    for name in ("return_mean", *DIAGNOSTIC_COLUMNS):
        if row.get(name):
            values[name] = float(row[name])
    return values


def _make_method(name: str, rows: list[Row], record: Path, source: Path) -> Method:
    content = read_config_file(record)
    config = content["config"]
    curves = make_curves(rows, config, name, source)
    grid = rows_by_seed(rows)
    present = {key for row in rows for key in row}
    last = max((row["wall_seconds"] for row in rows if "wall_seconds" in row), default=None)
    return Method(
        curves=replace(curves, env=task_name(config["env"])),
        diagnostics={key: column(grid, key) for key in DIAGNOSTIC_COLUMNS if key in present},
        record={"wall_seconds": last, **content},
        source=source,
    )
