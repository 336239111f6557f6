"""The log of a run folder, and reading it back. No jax here."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from lfiw.errors import Damaged, InputError
from lfiw.files import read_plain, write_whole
from lfiw.layout import parts_of
from lfiw.tensorboard import Boards

LOG = "metrics.jsonl"
MAX_LOG_BYTES = 2**32
TEXTS = ("kind", "reason", "faults")  # in a row of the log; all else are numbers

Row = dict[str, Any]
Later = tuple[Future[Any], Callable[[Any], Row]]  # a result to come, and how to write it


def rounded(value: Any, digits: int = 7) -> Any:
    """Numbers short enough to read; what is not finite becomes null, as JSON demands."""
    if isinstance(value, np.ndarray) and value.ndim:
        return [rounded(element, digits) for element in value]
    if isinstance(value, float | np.floating | np.ndarray):
        number = float(value)
        return float(f"{number:.{digits}g}") if math.isfinite(number) else None
    return value


class RunLog:
    """Writes metrics.jsonl and the TensorBoard files of one run folder.

    Rows stay in the order in which they were appended, also where one waits for an
    evaluation that is still running: the log does not depend on timing.
    """

    def __init__(
        self,
        folder: Path,
        on_row: Callable[[Row], None] = lambda row: None,
        resume_at: int = 0,
        elapsed: float = 0.0,
    ) -> None:
        """`resume_at`: the length in bytes to which a log that is taken up again is cut."""
        self.folder = folder
        self._on_row = on_row
        path = folder / LOG
        path.touch()
        before = path.read_bytes()
        # Of a log that was damaged, what is no row goes: the next one must begin a line.
        lines = before[:resume_at].splitlines(keepends=True)
        kept = b"".join(line for line in lines if parse_row(line))
        if kept != before:
            write_whole(path, kept)
        self._hash = hashlib.sha256(kept)
        self._file = path.open("a", encoding="utf-8")
        self._pending: deque[Row | Later] = deque()
        self._started = time.monotonic() - elapsed
        self._boards = Boards(folder / "tensorboard")  # derived: rebuilt from the log
        for row in read_metrics(folder):
            self._show(row)

    def wall_seconds(self) -> float:
        return round(time.monotonic() - self._started, 3)

    def append(self, item: Row | Later) -> None:
        self._pending.append(item)
        self.flush()

    def flush(self, wait: bool = False) -> None:
        """Write all rows up to the first evaluation that is not ready yet."""
        while self._pending:
            item = self._pending[0]
            if not isinstance(item, dict):
                future, to_row = item
                if not (wait or future.done()):
                    break
                item = to_row(future.result())
            self._pending.popleft()
            self._write(item)
        self._file.flush()

    def _write(self, row: Row) -> None:
        row = {name: rounded(value) for name, value in row.items()}
        line = json.dumps(row) + "\n"
        self._file.write(line)
        self._hash.update(line.encode())
        self._show(row)

    def _show(self, row: Row) -> None:
        self._on_row(row)
        self._boards.write(row)

    def facts(self) -> dict[str, Any]:
        """Wait for pending evaluations, force all rows to the disk, and describe them."""
        self.flush(wait=True)
        os.fsync(self._file.fileno())
        return {"log_bytes": self._file.tell(), "log_sha256": self._hash.hexdigest()}

    def close(self) -> None:
        try:
            self.flush(wait=True)
        finally:
            self._boards.close()
            self._file.close()


def read_metrics(run: str | Path, kind: str | None = None) -> list[Row]:
    """The rows of a run's log; a line cut short by a kill is left out."""
    path = Path(run) / LOG
    if not path.is_file():
        raise InputError(f"{run} has no metrics.jsonl.")
    try:
        content = read_plain(path, MAX_LOG_BYTES)
    except Damaged as error:
        raise InputError(str(error)) from None
    parsed = map(parse_row, content.splitlines())
    return [row for row in parsed if row and kind in (None, row["kind"])]


def read_evaluations(run: str | Path) -> list[Row]:
    return read_rows(run, "eval")


def read_rows(run: str | Path, kind: str) -> list[Row]:
    """Of all seeds of a run, those added later among them, without seeds that were given up."""
    rows = [row for part in parts_of(run) for row in read_metrics(part, kind)]
    stopped = stopped_seeds(run)
    return [row for row in rows if row["seed"] not in stopped]


def parse_row(line: bytes) -> Row | None:
    """A row of the log, or None where the line is not one."""
    try:
        row = json.loads(line)
        whole = isinstance(row["kind"], str) and all(
            type(row[name]) is int and abs(row[name]) < 2**53 for name in ("seed", "env_steps")
        )
        vectors = row["kind"] != "eval"
        values = [value for name, value in row.items() if name not in TEXTS]
        return row if whole and all(is_logged(value, vectors) for value in values) else None
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def is_logged(value: Any, vectors: bool) -> bool:
    """Whether `rounded` could have made it: a number or null, or a list of such."""
    if isinstance(value, list):
        return vectors and all(is_logged(element, vectors) for element in value)
    return value is None or (type(value) in (int, float) and math.isfinite(value))


def stopped_seeds(run: str | Path) -> set[int]:
    """Seeds that were given up: no curve or table counts them."""
    logged = [part for part in parts_of(run) if (part / LOG).is_file()]
    return {row["seed"] for part in logged for row in read_metrics(part, "stopped")}
