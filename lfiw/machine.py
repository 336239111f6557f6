"""Facts about this machine and what is installed on it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

RECORDED_PACKAGES = ("lfiw", "jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco")

# Versions 2 and 1: limit, usage, and what of it is cached files, which give way.
CGROUPS = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file"),
    (
        Path("/sys/fs/cgroup/memory"),
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def in_notebook() -> bool:
    """Whether IPython runs here with a kernel, as it does for notebooks."""
    ipython = sys.modules.get("IPython")
    return hasattr(ipython.get_ipython(), "kernel") if ipython else False


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int:
    """Bytes that this process may still take, within its control group."""
    limits = [_meminfo_available(), _cgroup_available()]
    return min((limit for limit in limits if limit is not None), default=2**62)


def _meminfo_available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _cgroup_available() -> int | None:
    for folder, limit, usage, cached in CGROUPS:
        try:
            free = int((folder / limit).read_text()) - int((folder / usage).read_text())
        except (OSError, ValueError):  # no such file, or `max`
            continue
        return free + _stated(folder / "memory.stat", cached)
    return None


def _stated(file: Path, name: str) -> int:
    """A number of a file with lines `NAME NUMBER`; 0 where it has none."""
    try:
        return int(dict(line.split() for line in file.read_text().splitlines()).get(name, 0))
    except (OSError, ValueError):
        return 0


def free_disk(folder: Path) -> int:
    """Bytes that are free where a folder is, or will be made."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def cpu_model() -> str:
    try:
        with Path("/proc/cpuinfo").open() as lines:
            return next(
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            )
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def versions(*more: str) -> dict[str, str]:
    """Of Python, of the packages that every run depends on, and of more of them."""
    found = {"python": platform.python_version()}
    for package in (*RECORDED_PACKAGES, *more):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def source_commit() -> str | None:
    """The commit of the checkout that this package runs from; None where it is installed."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
