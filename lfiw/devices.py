"""Which devices train, and what is recorded of them."""

from __future__ import annotations

import contextlib
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from lfiw.host import usable_cores

RECORDED_PACKAGES = ("lfiw", "jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco")


def prepare_devices() -> None:
    """One CPU device per core, so that several runs train at once, each on one thread."""
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    with contextlib.suppress(RuntimeError):  # jax has started: use the devices that it has
        jax.config.update("jax_num_cpu_devices", usable_cores())


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in RECORDED_PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def hardware(devices: list[jax.Device]) -> dict[str, Any]:
    return {
        "platform": devices[0].platform,
        "device": devices[0].device_kind,
        "num_devices": len(devices),
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def cpu_model() -> str:
    try:
        with Path("/proc/cpuinfo").open() as lines:
            return next(
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            )
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
