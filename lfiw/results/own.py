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
from lfiw.runs.config_file import is_configuration, read_config_file
from lfiw.runs.files import read_json, short_int
from lfiw.runs.layout import CONFIG, folders_below, parts_of
from lfiw.runs.metrics import DIAGNOSTICS
from lfiw.runs.read import read_metrics
from lfiw.runs.rows import Row
from lfiw.wording import one_line

CURVES_FILE = "curves.csv"
NEEDED_COLUMNS = ("method", "seed", "env_steps", "return_mean")
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
    """The rows of a store's table, as text that can be read as numbers: some of every method that
    is recorded beside it."""
    try:
        rows = list(_rows_of_table(path))
    except Damaged as error:
        reason = one_line(str(error).replace(f"{path} ", "it ", 1), longest=200).removesuffix(".")
        raise InputError(f"{path} is not a table of evaluations: {reason}.") from None
    _refuse_lost_rows(path, rows)
    return rows


def _rows_of_table(path: Path) -> Iterator[dict[str, str]]:
    """Row by row; what is damaged is said of the table, which `it` stands for."""
    header: list[str] = []
    lines = enumerate(csv.reader(_decoded(path), strict=True), 1)
    while True:
        try:
            number, cells = next(lines)
        except StopIteration:
            break
        except csv.Error as error:
            raise Damaged(f"it holds what no table does, {error}") from None
        if not header:
            header = cells
            if not set(NEEDED_COLUMNS) <= set(header):
                raise Damaged(f"its first line does not name {', '.join(NEEDED_COLUMNS)}")
        elif cells:  # not an empty line
            if len(cells) != len(header):
                raise Damaged(f"line {number} has {len(cells)} columns and not {len(header)}")
            row = dict(zip(header, cells, strict=True))
            _numbers(row, f"line {number}")
            yield row
    if not header:
        raise Damaged("it is empty")


def _decoded(path: Path) -> Iterator[str]:
    for number, line in enumerate(read_lines(path, MAX_TABLE_BYTES, MAX_LINE_BYTES), 1):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise Damaged(f"line {number} is not UTF-8 text") from None


def _refuse_lost_rows(path: Path, rows: list[dict[str, str]]) -> None:
    """A table that was cut still reads as one; the records beside it tell which methods it had."""
    found = {row["method"] for row in rows}
    recorded = [record.stem for record in sorted(path.parent.glob("*.json")) if _is_record(record)]
    if lost := [one_line(name) for name in recorded if name not in found]:
        one = f"{lost[0]}.json and add all its runs anew"
        several = "METHOD.json of each and add all their runs anew"
        raise InputError(
            f"{path} has lost the rows of {', '.join(lost)}: bring back a copy of the table, or "
            f"remove {one if len(lost) == 1 else several}."
        )


def _is_record(path: Path) -> bool:
    try:
        return is_configuration(read_json(path))
    except Damaged:
        return False  # where there are rows of it, reading them refuses it


def _read_store(path: Path) -> Iterator[Method]:
    by_method: dict[str, list[Row]] = {}
    for row in stored_rows(path):
        by_method.setdefault(row["method"], []).append(_numbers(row))
    if not by_method:
        raise NothingYet(f"{path} has no evaluation yet.")
    for name, rows in by_method.items():
        record = path.parent / f"{name}.json"
        if not record.is_file():
            raise InputError(f"{path} has rows of {name}, but {record} is missing.")
        yield _make_method(name, rows, record, path.parent)


def _numbers(row: dict[str, str], place: str = "") -> Row:
    """The columns that are read, as numbers but for the name; an empty one is absent. `place` is
    for errors."""
    values: Row = {"method": row["method"]}
    for name in ("seed", "env_steps", "return_mean", *DIAGNOSTIC_COLUMNS):
        whole = name in ("seed", "env_steps")
        if whole or row.get(name):
            try:
                values[name] = (short_int if whole else float)(row[name])
            except ValueError:
                shown = repr(one_line(row[name], longest=40))
                raise Damaged(f"{place} has {shown} for {name}, which is not a number") from None
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
