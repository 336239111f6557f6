"""Reading the log of a method folder back."""

from __future__ import annotations

from pathlib import Path

from lfiw.errors import Damaged, InputError
from lfiw.runs.config_file import read_config, seeds_of
from lfiw.runs.files import read_plain
from lfiw.runs.layout import CONFIG, parts_of
from lfiw.runs.rows import Row, parse_row

LOG = "metrics.jsonl"

MAX_LOG_BYTES = 2**32
EVALUATIONS = ("eval", "failed eval")  # kinds of rows


def read_metrics(folder: str | Path, kind: str | None = None) -> list[Row]:
    """The rows of a run's log; a line cut short by a kill is left out."""
    path = Path(folder) / LOG
    if not path.is_file():
        raise InputError(f"{folder} has no metrics.jsonl.")
    try:
        content = read_plain(path, MAX_LOG_BYTES)
    except Damaged as error:
        raise InputError(str(error)) from None
    parsed = map(parse_row, content.splitlines())
    return [row for row in parsed if row and kind in (None, row["kind"])]


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
