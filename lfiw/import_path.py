"""Where Python looks for the user's own environments: never in a method folder, which may be
somebody else's, with a module of any name in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lfiw.errors import Damaged
from lfiw.plain_files import read_plain

CONFIG = "config.json"
MAX_JSON_BYTES = 16 * 2**20


def is_method_folder(folder: Path) -> bool:
    """Whether its config.json is that of a training; other programs have files of that name."""
    try:
        content = json.loads(read_plain(folder / CONFIG, MAX_JSON_BYTES))
        return isinstance(content["config"]["env"]["id"], str)
    except (Damaged, OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def in_method_folder(path: Path) -> bool:
    """Whether a path is a method folder or lies below one."""
    resolved = path.resolve()
    return any(map(is_method_folder, (resolved, *resolved.parents)))


def leave_method_folders() -> None:
    """`python -m` looks for modules in the current folder first."""
    sys.path[:] = [entry for entry in sys.path if not in_method_folder(Path(entry))]


def look_in_current_folder() -> None:
    """Modules beside the user are found, last of all."""
    here = Path.cwd()
    if str(here) not in sys.path and not in_method_folder(here):
        sys.path.append(str(here))
