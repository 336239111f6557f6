"""Checkpoints of a run folder: complete or not there at all. No jax here.

A checkpoint is a folder of safetensors and JSON files with a manifest of their sizes and
hashes. It is written under a temporary name, synced and then renamed, so a kill at any
moment leaves the one before. Nothing in it is ever executed or unpickled.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from lfiw.errors import InputError, RunError
from lfiw.runlog import safe_name

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
KEPT = 2
FORMAT = 1
MAX_MANIFEST_BYTES = 16 * 2**20


class Damaged(RunError):
    """A file of a checkpoint is not what its manifest says."""


@dataclass(frozen=True)
class Checkpoint:
    """What was read back: small facts, arrays by file name, and where they came from."""

    path: Path
    facts: dict[str, Any]
    arrays: dict[str, dict[str, np.ndarray]]


def checkpoint_name(env_steps: int, updates: int) -> str:
    return f"{env_steps:012d}-{updates:012d}"


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


def save_checkpoint(
    run: Path,
    name: str,
    facts: Mapping[str, Any],
    arrays: Mapping[str, Mapping[str, np.ndarray]],
) -> Path:
    """Write a checkpoint and remove all but the newest ones."""
    parent = run / FOLDER
    final, temporary = parent / name, parent / f".writing-{name}"
    try:
        parent.mkdir(exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
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
        manifest["sha256"] = manifest_hash(manifest)
        write_synced(temporary / MANIFEST, json.dumps(manifest, indent=1).encode())
        sync(temporary)
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)
        sync(parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunError(
            f"The checkpoint {final} cannot be written: {error.strerror}; the one before it is "
            f"intact."
        ) from error
    for old in list_checkpoints(run)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def keep_newest(run: Path, name: str) -> None:
    """Put the newest checkpoint, if there is one, out of the reach of later ones."""
    for newest in list_checkpoints(run)[:1]:
        shutil.copytree(newest, newest.parent / name, dirs_exist_ok=True)


def manifest_hash(manifest: Mapping[str, Any]) -> str:
    """Of the manifest's own content, so that a flipped byte in it is seen too."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def list_checkpoints(run: Path) -> list[Path]:
    """Committed checkpoints, newest first."""
    folder = run / FOLDER
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.is_dir() and path.name[0].isdigit()]
    return sorted(found, key=lambda path: path.name, reverse=True)


def read_plain(path: Path, largest: int) -> bytes:
    """The bytes of a plain file of at most `largest`; links and the like are refused."""
    if path.is_symlink() or not path.is_file():
        raise Damaged(f"{path} is missing or not a plain file.")
    if path.stat().st_size > largest:
        raise Damaged(f"{path} has {path.stat().st_size} bytes, more than its manifest allows.")
    return path.read_bytes()


def read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(read_plain(path / MANIFEST, MAX_MANIFEST_BYTES))
        intact = manifest["sha256"] == manifest_hash(manifest) and manifest["format"] == FORMAT
        names = list(manifest["files"])
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        raise Damaged(f"{path / MANIFEST} is damaged: {type(error).__name__}.") from None
    if not intact:
        raise Damaged(f"{path / MANIFEST} is damaged: its hash does not match.")
    if any(safe_name(name) != name for name in names):
        raise Damaged(f"{path / MANIFEST} names files outside its folder.")
    return dict(manifest)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read and verify a checkpoint; Damaged names the first file that is wrong."""
    manifest = read_manifest(path)
    arrays = {}
    for name, expected in manifest["files"].items():
        content = read_plain(path / name, int(expected["size"]))
        if len(content) != expected["size"]:
            raise Damaged(f"{path / name} has {len(content)} bytes, not {expected['size']}.")
        if hashlib.sha256(content).hexdigest() != expected["sha256"]:
            raise Damaged(f"{path / name} is damaged: its hash does not match.")
        try:
            arrays[name] = load(content)
        except SafetensorError as error:
            raise Damaged(f"{path / name} is no safetensors file: {error}") from None
    return Checkpoint(path, manifest["facts"], arrays)


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold a run folder for one writer; the system frees it when the writer dies."""
    with (run / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{run} is being written by another process.") from None
        yield


def newest_good(run: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that verifies, and what is wrong with newer ones. None where none
    was ever committed: such a run starts anew from its config."""
    complaints: list[str] = []
    candidates = list_checkpoints(run)
    for path in candidates:
        try:
            return load_checkpoint(path), complaints
        except Damaged as error:
            complaints.append(str(error))
    if candidates:
        raise InputError(f"{run} has no intact checkpoint. {' '.join(complaints)}")
    return None, complaints
