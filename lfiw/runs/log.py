"""Writing the log of a method folder."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from lfiw.errors import Damaged
from lfiw.runs.files import write_whole
from lfiw.runs.read import LOG, log_lines, read_metrics
from lfiw.runs.rows import Row, parse_row, rounded
from lfiw.runs.tensorboard import Boards

Later = tuple[Future[Any], Callable[[Any], Row]]  # a result to come, and how to write it


def rows_up_to(path: Path, size: int) -> Iterator[bytes]:
    """The lines within the first bytes of a log that are rows, as far as it can be read."""
    with suppress(Damaged):
        for line in log_lines(path):
            part, size = line[:size], size - len(line)
            if parse_row(part):
                yield part
            if size <= 0:
                return


class RunLog:
    """Writes metrics.jsonl and the TensorBoard files of one method folder.

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
        # Of a log that was damaged, what is no row goes: the next one must begin a line.
        kept = b"".join(rows_up_to(path, resume_at))
        if len(kept) != path.stat().st_size:
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
