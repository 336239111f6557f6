"""The manifest of a finished training: every file that it left, with size and hash.

What is written later on must not look as if the training had made it: rows of the log, policies,
snapshots, checkpoints. A training that goes on breaks the seal first and is sealed anew at its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lfiw.errors import Damaged, InputError
from lfiw.plain_files import hash_of_start, read_plain
from lfiw.runs.checkpoint import FOLDER as CHECKPOINTS
from lfiw.runs.checkpoint import check_file, list_checkpoints, read_manifest
from lfiw.runs.files import MAX_JSON_BYTES, json_bytes, json_hash, read_json, sync, write_json
from lfiw.runs.key import is_signed, signature
from lfiw.runs.layout import CONFIG
from lfiw.runs.read import LOG
from lfiw.runs.recovery import is_last
from lfiw.runs.segments import described
from lfiw.wording import option

SEAL = "sealed.json"
RING = "ring"
PLACES = (CHECKPOINTS, "policies", "snapshots", RING)  # no file of another origin belongs there
PURPOSE = "manifest"


def files_of(folder: Path) -> list[Path]:
    """What a training leaves, without what a kill may leave beside it."""
    inside = [path for place in PLACES for path in (folder / place).glob("**/*")]
    files = [folder / CONFIG, folder / LOG, *inside]
    return sorted(path for path in files if path.is_file() and not is_leftover(path, folder))


def is_leftover(path: Path, folder: Path) -> bool:
    """Of a write that was killed: under a temporary name, never read, replaced by the next one."""
    parts = path.relative_to(folder).parts
    unfinished = parts[0] == CHECKPOINTS and len(parts) > 1 and parts[1].startswith(".")
    return path.suffix == ".tmp" or unfinished


def remove_leftovers(folder: Path) -> None:
    """By whoever holds the folder for writing."""
    for place in (folder, *(folder / name for name in PLACES)):
        for path in place.glob("*.tmp" if place == folder else "**/*.tmp"):
            path.unlink(missing_ok=True)


def seal(folder: Path, late: bool = False) -> None:
    """Of a training that has reached its end; nothing where it has not. A `late` seal, by somebody
    who finds the files and has not written them, is not signed."""
    newest = list_checkpoints(folder)[:1]
    facts = read_manifest(newest[0])["facts"] if newest else {}
    if not newest or not is_last(facts, facts["config"]["config"].get("env_steps")):
        return
    # The hashes of rows and log have grown with them: what was meant, not what is there now.
    known = {folder / LOG: {"size": facts["log_bytes"], "sha256": facts["log_sha256"]}}
    for seed, rows in facts["segments"].items():
        known |= described(folder / RING / f"seed-{seed}", rows)
    files = {
        path.relative_to(folder).as_posix(): known.get(path) or entry_of(path)
        for path in files_of(folder)
    }
    content = {"format": 1, "env_steps": facts["env_steps"], "files": files}
    content |= {"late": True} if late else {"signature": signature(PURPOSE, _content(content))}
    write_json(folder / SEAL, {**content, "sha256": json_hash(content)})


def break_seal(folder: Path) -> None:
    """Before anything of a sealed training is changed."""
    if (folder / SEAL).exists():
        (folder / SEAL).unlink()
        sync(folder)


def is_sealed(folder: Path) -> bool:
    return (folder / SEAL).exists()


def entry_of(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    return {"size": size, "sha256": hash_of_start(path, size)}


def _content(seal: Mapping[str, Any]) -> bytes:
    sealed = {name: seal.get(name) for name in ("env_steps", "files")}
    return json.dumps(sealed, sort_keys=True).encode()


def read_seal(folder: Path) -> dict[str, Any]:
    content = read_json(folder / SEAL)
    whole = content.get("sha256") == json_hash(content)
    if not whole or read_plain(folder / SEAL, MAX_JSON_BYTES) != json_bytes(content):
        raise Damaged(f"{folder / SEAL} is damaged: its hash does not match.")
    files = content.get("files")
    entries = files.values() if isinstance(files, dict) else ()
    if not entries or not all(isinstance(entry, dict) and "size" in entry for entry in entries):
        raise Damaged(f"{folder / SEAL} is not the manifest of a training.")
    return content


def broken_seals(folder: Path, place: str = "") -> Iterator[tuple[Path, str]]:
    """Each file, in that place if one is named, that is not as the training left it, and a
    sentence about it."""
    try:
        files = read_seal(folder)["files"]
    except Damaged as error:
        yield folder / SEAL, str(error)
        return
    files = {name: entry for name, entry in files.items() if name.startswith(place)}
    named = {path.relative_to(folder).as_posix(): path for path in files_of(folder)}
    present = {name: path for name, path in named.items() if name.startswith(place)}
    for name in sorted(files.keys() - present.keys()):
        yield folder / name, f"{folder / name} is missing since the training ended."
    for name, path in present.items():
        if name not in files:
            yield path, f"{path} was added after the training ended."
            continue
        try:
            check_file(path, files[name])
        except Damaged as error:
            yield path, str(error)


def refuse_exchanged(folder: Path) -> None:
    """A training that goes on writes its policies anew, but is sealed with the snapshots that it
    finds: they must be what it left."""
    if is_sealed(folder):
        for _, problem in broken_seals(folder, "snapshots/"):
            raise InputError(
                f"{problem} A resume would seal that as its own; {option('allow_inexact')} does so."
            )


def is_late_seal(folder: Path) -> bool:
    return bool(read_seal(folder).get("late"))


def is_own_seal(folder: Path) -> bool:
    """Whether this user's training on this machine made it: everybody can compute hashes."""
    content = read_seal(folder)
    return is_signed(content.get("signature"), PURPOSE, _content(content))
