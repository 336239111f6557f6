"""Which devices train, what memory they have, and what is recorded of them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from lfiw.errors import InputError
from lfiw.machine import available_memory, cpu_model, usable_cores
from lfiw.wording import option, size_text


def prepare_jax() -> None:
    """Settings that must stand before jax starts; where it has, its devices are kept."""
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with contextlib.suppress(RuntimeError):
            # One device per core, so that several runs train at once. At least two: where XLA
            # has a single thread its programs add in another order.
            jax.config.update("jax_num_cpu_devices", max(2, usable_cores()))
    if jax.config.values["jax_compilation_cache_dir"] is None:
        with contextlib.suppress(OSError):  # without a home to write to, nothing is kept
            jax.config.update("jax_compilation_cache_dir", str(compilation_cache()))
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def compilation_cache() -> Path:
    """A folder of this user and this kind of CPU alone: what is in it is executed."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    machine = hashlib.sha256(cpu_model().encode()).hexdigest()[:12]
    folder = Path(base) / "lfiw" / f"xla-{machine}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def choose_devices(choice: str | None) -> list[jax.Device]:
    """All devices of jax's first platform, or those that `--devices` names: `cpu`, `gpu`,
    `cpu:2` (the first two) or `gpu:0,2` (these)."""
    if choice is None:
        return list(jax.devices())
    platform, colon, part = choice.partition(":")
    try:
        found = list(jax.devices(platform))
    except RuntimeError:
        raise InputError(
            f"{option('devices', choice)}: jax sees no {platform!r} here, only "
            f"{jax.default_backend()}."
        ) from None
    if not colon:
        return found
    try:
        numbers = [int(number) for number in part.split(",")]
        chosen = numbers if platform != "cpu" or len(numbers) > 1 else range(numbers[0])
        devices = [] if min(numbers) < 0 else [found[number] for number in chosen]
    except (ValueError, IndexError):
        devices = []
    if not devices:
        raise InputError(
            f"{option('devices', choice)}: choose from the {len(found)} devices of {platform}."
        )
    return devices


def devices_of_teams(num_teams: int, devices: Sequence[jax.Device]) -> list[list[jax.Device]]:
    """A fixed rule: with at least as many teams as devices each team has one of its own, in
    turn; with fewer, every team spreads over all. CPU devices are always shared, in turn."""
    firsts = [team % len(devices) for team in range(num_teams)]
    shifted = [[*devices[first:], *devices[:first]] for first in firsts]
    if devices[0].platform == "cpu" or num_teams < len(devices):
        return shifted
    return [team[:1] for team in shifted]


def turns_of_teams(
    placed: Sequence[Sequence[jax.Device]],
) -> list[contextlib.AbstractContextManager[object]]:
    """What each team holds while it learns. Teams on one GPU take turns, a phase each: were their
    calls mixed, all would be done at about the same time, and then all would collect while the
    device waits. The cores of a CPU take several teams at once."""
    locks: defaultdict[frozenset[jax.Device], threading.Lock] = defaultdict(threading.Lock)
    return [
        contextlib.nullcontext() if devices[0].platform == "cpu" else locks[frozenset(devices)]
        for devices in placed
    ]


def check_memory(needed: int, devices: Sequence[jax.Device]) -> str:
    """A line about the memory that training takes; a refusal where it cannot fit."""
    available = memory_of(devices)
    where = "memory" if devices[0].platform == "cpu" else "device memory"
    line = f"{size_text(needed)} of {where} needed, {size_text(available)} available"
    if needed > available:
        raise InputError(
            f"This cannot fit: {line}. Lower buffer_size, the number of seeds or of methods."
        )
    return line


def memory_of(devices: Sequence[jax.Device]) -> int:
    """Free bytes; the devices of a CPU share those of the machine."""
    if devices[0].platform == "cpu":
        return available_memory()
    return sum(device_memory(device) for device in devices)


def device_memory(device: jax.Device) -> int:
    stats = device.memory_stats() or {}
    return int(stats.get("bytes_limit", 0)) - int(stats.get("bytes_in_use", 0))


def hardware(devices: Sequence[jax.Device]) -> dict[str, Any]:
    return {
        "platform": devices[0].platform,
        "device": devices[0].device_kind,
        "num_devices": len(devices),
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }
