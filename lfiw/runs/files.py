"""Files that are whole or not there, and reading what somebody else may have made.

Nothing read here is ever executed or unpickled, and no more memory is taken than a file of
ours could need.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from lfiw.errors import Damaged, InputError
from lfiw.import_path import MAX_JSON_BYTES as MAX_JSON_BYTES
from lfiw.plain_files import read_plain

MAX_INT_DIGITS = 19  # of a number in JSON, but for a generator's state
MAX_HEADER_BYTES = 2**20  # of a safetensors file; ours have some hundred names at most
MAX_ARRAYS_BYTES = 2**30  # of a checkpoint's file
MAX_NETWORKS_BYTES = 2**28  # of a policy or a snapshot; layers of 256 make less than 2 MB
NO_HASH = "0" * 64  # stands where a file's own hash goes while it is computed


def sync(path: Path) -> None:
    """Force a file's or folder's content to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, content: bytes) -> None:
    """The new content or the old, never a part; nothing is left behind by a failure."""
    temporary = path.with_suffix(".tmp")
    try:
        write_synced(temporary, content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def write_json(path: Path, value: Any) -> None:
    write_whole(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def make_parent(path: Path) -> None:
    """The folder that a file goes to, or a sentence."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None


def refuse_links(folder: Path) -> None:
    """What is written must stay in the folder, so nothing in it may lead elsewhere."""
    for parent, folders, files in os.walk(folder):
        for path in sorted(Path(parent, name) for name in (*folders, *files)):
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:  # a training has removed it meanwhile
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise InputError(f"{path} is a link or a special file; a method folder has none.")


def json_hash(value: Mapping[str, Any]) -> str:
    """Of all entries but `sha256`, which holds this hash."""
    content = {key: entry for key, entry in value.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_json(path: Path, parse_int: Callable[[str], int] | None = None) -> dict[str, Any]:
    """An object of JSON; its hash, where it has one, is not compared here."""
    try:
        value = json.loads(read_plain(path, MAX_JSON_BYTES), parse_int=parse_int or short_int)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path} is damaged: {str(error).splitlines()[0]}") from None
    if not isinstance(value, dict):
        raise Damaged(f"{path} is damaged: it holds no object.")
    return value


def short_int(text: str) -> int:
    """A number that fits into what arrays hold."""
    if len(text) > MAX_INT_DIGITS:
        raise ValueError(f"a number has {len(text)} digits.")
    return int(text)


def arrays_to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """A safetensors file with the hash of the whole file in its header."""
    contiguous = {name: np.array(array, order="C") for name, array in arrays.items()}
    content = save(contiguous, metadata={"sha256": NO_HASH})
    return content.replace(NO_HASH.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, arrays_to_bytes(arrays))


def read_arrays(path: Path, hash_required: bool = False) -> dict[str, np.ndarray]:
    """The arrays of a file with or, unless one is required, without a hash of its own."""
    content = read_plain(path, MAX_NETWORKS_BYTES)
    arrays = parse_arrays(path, content)
    size = 8 + int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8:size]).get("__metadata__", {})
    if "sha256" in metadata:
        header = content[:size].replace(metadata["sha256"].encode(), NO_HASH.encode(), 1)
        actual = hashlib.sha256(header)
        actual.update(memoryview(content)[size:])
        if actual.hexdigest() != metadata["sha256"]:
            raise Damaged(f"{path} is damaged: its hash does not match.")
    elif hash_required:
        raise Damaged(f"{path} is damaged: it has lost its hash.")
    return arrays


def parse_arrays(path: Path, content: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file that has been read from `path`."""
    if int.from_bytes(content[:8], "little") > MAX_HEADER_BYTES:
        raise Damaged(f"{path} is damaged: its header has more than {MAX_HEADER_BYTES} bytes.")
    try:
        return dict(load(content))
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise Damaged(f"{path} is damaged or no safetensors file: {reason}") from None
