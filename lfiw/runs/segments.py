"""The transitions of a run on disk: append-only segments, written as they are collected.

A checkpoint then costs only the new rows, and the ring is never read back from the device.
The hash of a segment grows with it, so any prefix of a segment can be verified.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from lfiw.errors import Damaged
from lfiw.plain_files import hash_of_start, open_plain
from lfiw.runs.files import sync

SEGMENT_ROWS = 50_000
MAX_SEGMENT_BYTES = 2**32  # rows of 21,000 numbers


def segment_path(folder: Path, index: int) -> Path:
    return folder / f"rows-{index:06d}.f32"


class Segment(NamedTuple):
    """What a checkpoint needs of a segment: its first bytes, and their hash."""

    path: Path
    size: int
    sha256: str

    def check(self) -> None:
        """In parts: a segment takes no memory before it is known to be whole."""
        if self.size > MAX_SEGMENT_BYTES:
            raise Damaged(f"{self.path} cannot have {self.size} bytes.")
        if self.size and hash_of_start(self.path, self.size) != self.sha256:
            raise Damaged(f"{self.path} is damaged: its hash does not match.")

    def read(self) -> bytes:
        self.check()
        if self.size == 0:
            return b""
        with open_plain(self.path) as file:
            return file.read(self.size)


def needed_segments(folder: Path, facts: Mapping[str, Any], capacity: int) -> list[Segment]:
    """The segments with the newest `capacity` rows, the one being written among them."""
    num_rows, row_bytes = facts["num_rows"], facts["row_bytes"]
    first, last = max(0, num_rows - capacity) // SEGMENT_ROWS, num_rows // SEGMENT_ROWS
    return [
        Segment(
            segment_path(folder, index),
            row_bytes * (SEGMENT_ROWS if index < last else num_rows % SEGMENT_ROWS),
            facts["sha256"][index],
        )
        for index in range(first, last + 1)
    ]


def described(folder: Path, facts: Mapping[str, Any]) -> dict[Path, dict[str, Any]]:
    """Size and hash of every segment that was written, also of those that were dropped since."""
    num_rows, row_bytes = facts["num_rows"], facts["row_bytes"]
    rows = [min(SEGMENT_ROWS, num_rows - start) for start in range(0, num_rows, SEGMENT_ROWS)]
    return {
        segment_path(folder, index): {"size": own * row_bytes, "sha256": facts["sha256"][index]}
        for index, own in enumerate(rows)
    }


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
        return segment_path(self.folder, index)

    def append(self, rows: np.ndarray) -> None:
        """Add rows [n, row_size]."""
        rows = np.ascontiguousarray(rows, "<f4")
        while len(rows):
            index, filled = divmod(self.num_rows, SEGMENT_ROWS)
            if self._file is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                # A new segment replaces what an abandoned attempt may have left there.
                self._file = self.path(index).open("ab" if filled else "wb")
                sync(self.folder)
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
        return {
            "num_rows": self.num_rows,
            "row_bytes": self.row_bytes,
            "sha256": [*self._hashes, self._hash.hexdigest()],
        }

    def restore(self, facts: Mapping[str, Any], capacity: int) -> np.ndarray:
        """Go back to a checkpoint: cut off later rows, and return the newest `capacity`."""
        if facts["row_bytes"] != self.row_bytes:
            raise Damaged(f"{self.folder} holds rows of another size than this run's.")
        self.num_rows = facts["num_rows"]
        last = self.num_rows // SEGMENT_ROWS
        self._hashes = facts["sha256"][:last]
        contents = [segment.read() for segment in needed_segments(self.folder, facts, capacity)]
        self._hash = hashlib.sha256(contents[-1])
        self._cut(last, self.num_rows % SEGMENT_ROWS)
        rows = np.frombuffer(b"".join(contents), "<f4").reshape(-1, self.row_size)
        return rows[len(rows) - min(capacity, self.num_rows) :]

    def _cut(self, index: int, count: int) -> None:
        """Forget rows after the checkpoint, which the resumed run will collect again."""
        for later in sorted(self.folder.glob("rows-*.f32")):
            if later > self.path(index):
                later.unlink()
        if self.path(index).exists():
            os.truncate(self.path(index), count * self.row_bytes)

    def drop_before(self, facts: Mapping[str, Any], capacity: int) -> None:
        """Delete segments that no kept checkpoint needs any more."""
        oldest = needed_segments(self.folder, facts, capacity)[0].path
        for path in self.folder.glob("rows-*.f32"):
            if path < oldest:
                path.unlink()

    def close(self) -> None:
        if self._file is not None:
            self._sync()
            self._file.close()
            self._file = None
