"""Where things are in a method folder, and where method folders are."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from lfiw.errors import InputError
from lfiw.import_path import CONFIG as CONFIG  # where all else of a folder's layout is

# Both beside a config.json: of a folder to share, whose training is elsewhere.
SHARED_POLICY, SHARED_RESULTS = "policy.npz", "results.json"
ADDED = "added"  # below a method folder: the method folders of seeds that joined later
POLICIES = {"latest": "seed-", "best": "best-seed-"}  # which is kept, and how its file is named
SNAPSHOT_PERCENTS = (20, 40, 60, 80, 100)  # of training, when all networks are kept


def safe_name(name: str) -> str:
    """A name without characters that mean something to a file system."""
    return re.sub(r"[^A-Za-z0-9._=+-]+", "-", name).strip("-.") or "unnamed"


def method_folder(out: str | Path, env_id: str, method: str, label: str = "") -> Path:
    if label and label != safe_name(label):
        raise InputError(f"A label has letters, digits and ._=+- only, unlike {label!r}.")
    name = f"{method}-{label}" if label else method
    return Path(out) / safe_name(env_id) / safe_name(name)


def short_names(folders: Sequence[Path]) -> list[str]:
    """Each folder as it is called where all of them lie: 'sac-lfiw' among the methods of one
    environment, 'Ant-v5/sac-lfiw' among those of several."""
    paths = [folder.resolve() for folder in folders]
    common = os.path.commonpath([path.parent for path in paths])
    return [path.relative_to(common).as_posix() for path in paths]


def folder_of(named: str | PathLike[str]) -> Path:
    """The path of a method folder as users name it: a path, or a `Training`."""
    if not isinstance(named, str | PathLike):
        raise InputError(
            f"A method folder is a path, or what lfiw.train returned; this is neither: {named!r}."
        )
    return Path(named)


def policy_file(folder: str | Path, seed: int, which: str = "latest") -> Path:
    return Path(folder) / "policies" / f"{POLICIES[which]}{seed}.safetensors"


def snapshot_file(folder: str | Path, percent: int, seed: int) -> Path:
    return Path(folder) / "snapshots" / f"{percent:03d}" / f"seed-{seed}.safetensors"


def added_folder(folder: Path, seeds: Sequence[int]) -> Path:
    """Where seeds go that join a run later: a method folder of their own within the first."""
    return folder / ADDED / f"seed-{min(seeds)}"


def main_folder(part: Path) -> Path:
    """The method folder that a part belongs to, which may be itself."""
    return part.parents[1] if part.parent.name == ADDED else part


def parts_of(folder: str | Path) -> list[Path]:
    """The method folder itself, and those of seeds that were added to it later."""
    added = sorted(config.parent for config in Path(folder).glob(f"{ADDED}/*/{CONFIG}"))
    return [Path(folder), *added]


def folders_below(path: Path) -> list[Path]:
    """Method folders at or below a path; seeds that were added to a run are a part of it, and
    folders to share are none."""
    found = sorted(config.parent for config in path.glob(f"**/{CONFIG}"))
    return [folder for folder in found if folder.parent.name != ADDED and not is_shared(folder)]


def is_shared(folder: Path) -> bool:
    return (folder / SHARED_POLICY).is_file() and (folder / SHARED_RESULTS).is_file()


def find_folders(paths: Sequence[str | Path]) -> list[Path]:
    """Method folders at or below the given paths, each once."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if is_shared(path):
            raise InputError(
                f"{path} holds an exported policy and not its training: name the method folder "
                "that it was exported from."
            )
        below = [path] if (path / CONFIG).is_file() else folders_below(path)
        if not below:
            if not path.exists():
                raise InputError(f"{path} does not exist.")
            why = ": without a config.json, nothing was trained yet" if path.is_dir() else ""
            raise InputError(f"{path} holds no method folder{why}.")
        for folder in below:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())
