"""Checkpoints of a method folder: complete or not there at all.

A checkpoint is a folder of safetensors and JSON files with a manifest of their sizes and
hashes. It is written under a temporary name, synced and then renamed, so a kill at any
moment leaves the one before. Nothing in it is ever executed or unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from lfiw.errors import Damaged, RunError
from lfiw.plain_files import hash_of_start, open_plain, read_plain
from lfiw.runs.files import (
    MAX_ARRAYS_BYTES,
    MAX_JSON_BYTES,
    json_hash,
    parse_arrays,
    read_json,
    sync,
    write_synced,
)
from lfiw.runs.layout import safe_name

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
KEPT = 2
FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """What was read back: small facts, arrays by file name, and where they came from."""

    path: Path
    facts: dict[str, Any]
    arrays: dict[str, dict[str, np.ndarray]]


def checkpoint_name(env_steps: int, updates: int) -> str:
    return f"{env_steps:012d}-{updates:012d}"


def save_checkpoint(
    folder: Path,
    name: str,
    facts: Mapping[str, Any],
    arrays: Mapping[str, Mapping[str, np.ndarray]],
) -> Path:
    """Write a checkpoint and remove all but the newest ones. What is committed is never
    overwritten: where the name is taken, a number is added to it."""
    parent = folder / FOLDER
    final, temporary = parent / _free_name(folder, name), parent / f".writing-{name}"
    try:
        parent.mkdir(exist_ok=True)
        for abandoned in (*parent.glob(".writing-*"), *parent.glob(".removed-*")):  # by a kill
            shutil.rmtree(abandoned, ignore_errors=True)
        temporary.mkdir()
        files = {}
        for file_name, group in arrays.items():
            content = save({key: np.array(value, order="C") for key, value in group.items()})
            write_synced(temporary / file_name, content)
            files[file_name] = {
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
        manifest = {"format": FORMAT, "files": files, "facts": dict(facts)}
        manifest["sha256"] = json_hash(manifest)
        write_synced(temporary / MANIFEST, manifest_bytes(manifest))
        sync(temporary)
        temporary.rename(final)
        sync(parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunError(
            f"The checkpoint {final} cannot be written: {error.strerror}; the one before it is "
            f"intact."
        ) from error
    for old in list_checkpoints(folder)[KEPT:]:
        _remove(old)
    return final


def _remove(path: Path) -> None:
    """Whole in one go, as it was made: a kill must not leave a half that looks damaged."""
    removed = path.with_name(f".removed-{path.name}")
    with suppress(OSError):
        path.rename(removed)
        shutil.rmtree(removed)


def keep_newest(folder: Path, name: str) -> None:
    """Put the newest checkpoint, if there is one, out of the reach of later ones."""
    for newest in list_checkpoints(folder)[:1]:
        shutil.copytree(newest, newest.parent / name, dirs_exist_ok=True)


def _free_name(folder: Path, name: str) -> str:
    taken = [path.name for path in list_checkpoints(folder) if path.name.startswith(name)]
    return f"{name}-{int(taken[0][len(name) + 1 :] or 0) + 1:03d}" if taken else name


def list_checkpoints(folder: Path) -> list[Path]:
    """Committed checkpoints, newest first."""
    inside = folder / FOLDER
    if not inside.is_dir():
        return []
    found = [path for path in inside.iterdir() if re.fullmatch(r"\d+(-\d+){0,2}", path.name)]
    return sorted((path for path in found if path.is_dir()), reverse=True)


def position_of(checkpoint: Path) -> tuple[str, ...]:
    """The environment steps and updates after which it was made."""
    return tuple(checkpoint.name.split("-")[:2])


def remove_newer(checkpoint: Path) -> None:
    """Damaged ones, once training goes on from an older one: what they need is cut off."""
    for path in list_checkpoints(checkpoint.parents[1]):
        if path.name > checkpoint.name:
            _remove(path)


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, indent=1).encode()


def read_manifest(path: Path) -> dict[str, Any]:
    manifest = read_json(path / MANIFEST, parse_int=int)  # a generator's state has 39 digits
    right = manifest.get("sha256") == json_hash(manifest) and manifest.get("format") == FORMAT
    # A changed space, or 1E-5 for 1e-5, would leave the content as it was.
    if not right or read_plain(path / MANIFEST, MAX_JSON_BYTES) != manifest_bytes(manifest):
        raise Damaged(f"{path / MANIFEST} is damaged: its hash does not match.")
    files, facts = manifest.get("files"), manifest.get("facts")
    if not (isinstance(files, dict) and isinstance(facts, dict)):
        raise Damaged(f"{path / MANIFEST} is not the manifest of a checkpoint.")
    if any(safe_name(name) != name for name in files):
        raise Damaged(f"{path / MANIFEST} names files outside its folder.")
    for name, expected in files.items():
        size = expected.get("size") if isinstance(expected, dict) else None
        if not (isinstance(size, int) and 0 <= size <= MAX_ARRAYS_BYTES):
            raise Damaged(f"{path / MANIFEST} gives {name} an impossible size.")
    return manifest


def check_file(path: Path, expected: Mapping[str, Any]) -> None:
    """A file as a manifest describes it, or Damaged; it is read in parts."""
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
    if size != expected["size"]:
        raise Damaged(f"{path} has {size} bytes, not {expected['size']}.")
    if hash_of_start(path, size) != expected.get("sha256"):
        raise Damaged(f"{path} is damaged: its hash does not match.")


def read_verified(path: Path, expected: Mapping[str, Any]) -> bytes:
    check_file(path, expected)
    return read_plain(path, expected["size"])


def load_checkpoint(path: Path) -> Checkpoint:
    """Read and verify a checkpoint; Damaged names the first file that is wrong."""
    manifest = read_manifest(path)
    arrays = {
        name: parse_arrays(path / name, read_verified(path / name, expected))
        for name, expected in manifest["files"].items()
    }
    return Checkpoint(path, manifest["facts"], arrays)
