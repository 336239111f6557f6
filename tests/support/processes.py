"""Processes of the tests: their ends and whatever else happens is waited for, never a time."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Only against hanging for ever: nothing comes near it, on a slow and busy machine either.
PATIENCE = 3600.0
LOOK_SECONDS = 0.02


def wait_for(happened: Callable[[], Any], process: subprocess.Popen[Any] | None = None) -> Any:
    """What the function returns, as soon as that is anything. A process that would have to bring
    it about must not end before."""
    give_up = time.monotonic() + PATIENCE
    while not (result := happened()):
        ended = process is not None and process.poll() is not None
        if ended and not (result := happened()):
            raise AssertionError(f"It ended: {process and process.communicate()}")
        if ended:
            break
        assert time.monotonic() < give_up, "It never happened."
        time.sleep(LOOK_SECONDS)
    return result


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    """The output of a process that must end with this code."""
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, (output, errors)
    return output


def import_path() -> str:
    """For processes that import what the tests do."""
    return os.pathsep.join(filter(None, sys.path))


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead but not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids: list[int]) -> None:
    wait_for(lambda: not any(map(alive, pids)))


def children_of(pid: int) -> set[int]:
    """Those that run."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.add(int(stat.parent.name))
    return found
