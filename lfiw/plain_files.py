"""Opening files that somebody else may have made: plain ones only, of a size that is known before
any memory is taken. Nothing else of the package opens such a file."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lfiw.errors import Damaged

CHUNK_BYTES = 2**20


@contextmanager
def open_plain(path: Path, largest: int = 2**63) -> Iterator[BinaryIO]:
    """A plain file of at most `largest` bytes. Links are refused, and so is what never ends or
    would be waited for: devices and pipes."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except PermissionError:
        raise
    except OSError:
        raise Damaged(f"{path} is missing or not a plain file.") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):  # asked first: of a folder no file can be made
        os.close(handle)
        raise Damaged(f"{path} is missing or not a plain file.")
    with os.fdopen(handle, "rb") as file:
        if status.st_size > largest:
            raise Damaged(
                f"{path} has {status.st_size} bytes, more than the {largest} that it may have."
            )
        yield file


def read_plain(path: Path, largest: int) -> bytes:
    with open_plain(path, largest) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def read_lines(path: Path, largest: int, longest: int) -> Iterator[bytes]:
    """Line by line, each with its end; none may have more than `longest` bytes."""
    with open_plain(path, largest) as file:
        while line := file.readline(longest + 1):
            if len(line) > longest:
                raise Damaged(f"{path} has a line of more than {longest} bytes.")
            yield line


def hash_of_start(path: Path, size: int) -> str:
    """The SHA-256 of a file's first bytes, read in parts; the file may be longer."""
    found = hashlib.sha256()
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_size < size:
            raise Damaged(f"{path} is too short.")
        while size:
            part = file.read(min(size, CHUNK_BYTES))
            if not part:
                raise Damaged(f"{path} is too short.")
            found.update(part)
            size -= len(part)
    return found.hexdigest()
