"""Reading the log of a method folder back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lfiw.errors import Damaged, InputError
from lfiw.plain_files import read_lines
from lfiw.runs.config_file import read_config, seeds_of
from lfiw.runs.layout import CONFIG, parts_of
from lfiw.runs.rows import Row, parse_row

LOG = "metrics.jsonl"

# A row has some hundred bytes: 5 million steps of 64 seeds, in phases of 200 steps, make 1 GB.
MAX_LOG_BYTES = 2**33
MAX_ROW_BYTES = 2**21
EVALUATIONS = ("eval", "failed eval")  # kinds of rows


def read_metrics(folder: str | Path, kind: str | None = None) -> list[Row]:
    """The rows of a run's log; a line cut short by a kill is left out."""
    path = Path(folder) / LOG
    if not path.is_file():
        raise InputError(f"{folder} has no metrics.jsonl.")
    try:
        parsed = map(parse_row, log_lines(path))
        return [row for row in parsed if row and kind in (None, row["kind"])]
    except Damaged as error:
        raise InputError(str(error)) from None


def log_lines(path: Path) -> Iterator[bytes]:
    return read_lines(path, MAX_LOG_BYTES, MAX_ROW_BYTES)


def read_evaluations(folder: str | Path) -> list[Row]:
    return read_rows(folder, "eval")


def read_rows(folder: str | Path, kind: str) -> list[Row]:
    """Of all seeds of a run, those added later among them, without seeds that were given up."""
    rows = [row for part in parts_of(folder) for row in read_metrics(part, kind)]
    stopped = stopped_seeds(folder)
    return [row for row in rows if row["seed"] not in stopped]


def stopped_seeds(folder: str | Path) -> set[int]:
    """Seeds that were given up: no curve or table counts them."""
    logged = [part for part in parts_of(folder) if (part / LOG).is_file()]
    return {row["seed"] for part in logged for row in read_metrics(part, "stopped")}


def live_seeds(folder: str | Path) -> list[int]:
    """All seeds but those that were given up."""
    stopped = stopped_seeds(folder)
    return [seed for seed in seeds_of(folder) if seed not in stopped]


def is_begun(part: Path) -> bool:
    return (part / CONFIG).is_file()


def evaluated_up_to(part: Path) -> dict[int, int]:
    """The environment steps of the last evaluation of each seed that was not given up, of a folder
    without those added to it; 0 before the first."""
    reached = dict.fromkeys(read_config(part)["config"]["seeds"], 0)
    for row in read_metrics(part) if (part / LOG).is_file() else ():
        if row["kind"] == "stopped":
            reached.pop(row["seed"], None)
        elif row["kind"] in EVALUATIONS and row["seed"] in reached:
            reached[row["seed"]] = max(reached[row["seed"]], row["env_steps"])
    return reached
