"""The transitions of a run on disk: append-only segments, written as they are collected.

A checkpoint then costs only the new rows, and the ring is never read back from the device.
The hash of a segment grows with it, so any prefix of a segment can be verified. No jax here.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lfiw.checkpoint import Damaged

SEGMENT_ROWS = 50_000


class Segments:
    """The rows of one run, in the order in which they were collected."""

    def __init__(self, folder: Path, row_size: int) -> None:
        self.folder = folder
        self.row_bytes = 4 * row_size
        self.row_size = row_size
        self.num_rows = 0
        self._hashes: list[str] = []  # of full segments
        self._hash = hashlib.sha256()  # of the segment being written
        self._file: BinaryIO | None = None

    def path(self, index: int) -> Path:
        return self.folder / f"rows-{index:06d}.f32"

    def append(self, rows: np.ndarray) -> None:
        """Add rows [n, row_size]."""
        rows = np.ascontiguousarray(rows, "<f4")
        while len(rows):
            index, filled = divmod(self.num_rows, SEGMENT_ROWS)
            if self._file is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                # A new segment replaces what an abandoned attempt may have left there.
                self._file = self.path(index).open("ab" if filled else "wb")
            part = rows[: SEGMENT_ROWS - filled]
            content = part.tobytes()
            self._file.write(content)
            self._hash.update(content)
            self.num_rows += len(part)
            rows = rows[len(part) :]
            if self.num_rows % SEGMENT_ROWS == 0:
                self._finish_segment()

    def _finish_segment(self) -> None:
        assert self._file is not None
        self._sync()
        self._file.close()
        self._file = None
        self._hashes.append(self._hash.hexdigest())
        self._hash = hashlib.sha256()

    def _sync(self) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def facts(self) -> dict[str, Any]:
        """Sync, and describe what is on disk now."""
        self._sync()
        return {"num_rows": self.num_rows, "sha256": [*self._hashes, self._hash.hexdigest()]}

    def restore(self, facts: dict[str, Any], capacity: int) -> np.ndarray:
        """Go back to a checkpoint: cut off later rows, and return the newest `capacity`."""
        self.num_rows = int(facts["num_rows"])
        last, filled = divmod(self.num_rows, SEGMENT_ROWS)
        needed_from = max(0, self.num_rows - capacity) // SEGMENT_ROWS
        self._hashes = list(facts["sha256"][:last])
        parts = []
        for index in range(needed_from, last + 1):
            count = SEGMENT_ROWS if index < last else filled
            content = self._read(index, count, facts["sha256"][index])
            parts.append(np.frombuffer(content, "<f4").reshape(count, self.row_size))
            if index == last:
                self._hash = hashlib.sha256(content)
                self._cut(index, count)
        rows = np.concatenate(parts) if parts else np.zeros((0, self.row_size), np.float32)
        return rows[-min(capacity, self.num_rows) :] if self.num_rows else rows

    def _read(self, index: int, count: int, expected_hash: str) -> bytes:
        path, size = self.path(index), count * self.row_bytes
        if count == 0:
            return b""
        if path.is_symlink() or not path.is_file() or path.stat().st_size < size:
            raise Damaged(f"{path} is missing, too short or not a plain file.")
        with path.open("rb") as file:
            content = file.read(size)
        if hashlib.sha256(content).hexdigest() != expected_hash:
            raise Damaged(f"{path} is damaged: its hash does not match.")
        return content

    def _cut(self, index: int, count: int) -> None:
        """Forget rows after the checkpoint, which the resumed run will collect again."""
        for later in sorted(self.folder.glob("rows-*.f32")):
            if later > self.path(index):
                later.unlink()
        if self.path(index).exists():
            os.truncate(self.path(index), count * self.row_bytes)

    def drop_before(self, facts: dict[str, Any], capacity: int) -> None:
        """Delete segments that no kept checkpoint needs any more."""
        needed_from = max(0, int(facts["num_rows"]) - capacity) // SEGMENT_ROWS
        for index in range(needed_from - 1, -1, -1):
            if not self.path(index).exists():
                break
            self.path(index).unlink()

    def close(self) -> None:
        if self._file is not None:
            self._sync()
            self._file.close()
            self._file = None
