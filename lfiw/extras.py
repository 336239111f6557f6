"""How to install what is missing: the requirements themselves, which pip takes from anywhere."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path


def install_command(extra: str = "") -> str:
    """The command that brings the libraries of an extra, or else those that lfiw itself needs and
    that are not there."""
    wanted = requirements(extra)
    if not extra:
        wanted = [entry for entry in wanted if not is_installed(entry)] or wanted
    if not wanted:  # lfiw runs from a checkout that was never installed
        source = str(Path(__file__).parents[1])
        wanted = [f"{source}[{extra}]" if extra else source]
    return " ".join([pip(), "install", *(f'"{entry}"' for entry in wanted)])


def pip() -> str:
    """The one of this Python; another would install where lfiw does not look."""
    found, here = shutil.which("pip"), Path(sys.executable).parent
    if found and Path(found).parent == here:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"


def requirements(extra: str = "") -> list[str]:
    """As the installed package states them, without markers."""
    try:
        stated = metadata.requires("lfiw") or []
    except metadata.PackageNotFoundError:
        return []
    split = [[part.strip() for part in entry.partition(";")[::2]] for entry in stated]
    marker = re.compile(rf"extra == ['\"]{re.escape(extra)}['\"]") if extra else re.compile("$")
    return [entry for entry, condition in split if marker.match(condition)]


def is_installed(requirement: str) -> bool:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    try:
        metadata.version(name[0] if name else requirement)
    except metadata.PackageNotFoundError:
        return False
    return True
