"""Which operations an update's time goes to, from a profile of one call of updates."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from lfiw.acting.spaces import probe_env
from lfiw.bench.learner import DISCARDED_CALLS, TimedLearner
from lfiw.bench.result import BenchResult
from lfiw.errors import InputError
from lfiw.learning.config import TrainConfig, check
from lfiw.training.devices import prepare_jax

# A graph is one event in a profile; without graphs each kernel is one.
NO_GRAPHS = {"xla_gpu_enable_command_buffer": ""}
CONTAINERS = {"while", "call", "conditional"}  # their time is that of what they hold
DEFINITION = re.compile(r"^ *(?:ROOT )?%?([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\(.*$", re.MULTILINE)
SOURCE = re.compile(r'op_name="([^"]*)"')
NOT_SHAPE = re.compile(r"\{[^}]*\}|/\*.*?\*/")  # layouts and counts of a long tuple


class Operation(NamedTuple):
    """What a compiled program says of one of its operations."""

    kind: str
    result: str
    source: str


def bench_profile(config: TrainConfig, top: int = 20) -> BenchResult:
    """One row for each operation of one call, the longest first."""
    if top < 1:
        raise InputError(f"--top must be at least 1, not {top}.")
    check(config)
    spec, _ = probe_env(config.env)
    prepare_jax()
    on_gpu = jax.devices()[0].platform == "gpu"
    learner = TimedLearner(config, spec, **(NO_GRAPHS if on_gpu else {}))
    for _ in range(DISCARDED_CALLS + 1):
        learner.call()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            learner.call()
        (trace,) = Path(folder).rglob("*.xplane.pb")
        events = list(operations_in(jax.profiler.ProfileData.from_file(str(trace))))
    known = read_listing("\n".join(learner.team.listings()))
    rows = ranked(events, known, learner.call_updates)
    total = sum(row["us_per_update"] for row in rows)
    title = (
        f"{config.agent.name} with {config.replay.name} replay, {len(config.seeds)} "
        f"{'run' if len(config.seeds) == 1 else 'runs'}, on {jax.devices()[0].device_kind}"
    )
    notes = (
        f"{learner.median() * 1e3:.3g} ms per update without the profiler; "
        f"{sum(row['times_per_update'] for row in rows):.3g} operations per update take "
        f"{total / 1e3:.3g} ms, those that run side by side counted each"
        + (", here without graphs." if on_gpu else "."),
    )
    return BenchResult(title, rows[:top], notes)


def operations_in(profile: Any) -> Iterator[tuple[str, float]]:
    """Name and nanoseconds of each execution: kernels of a GPU, operations of a CPU."""
    gpus = [plane for plane in profile.planes if plane.name.startswith("/device:GPU")]
    for plane in gpus or profile.planes:
        for line in plane.lines:
            if gpus and "Stream" not in line.name:
                continue  # the same kernels again, by module and by step
            for event in line.events:
                operation = dict(event.stats).get("hlo_op")
                if gpus or operation:
                    yield str(operation or event.name), event.duration_ns


def read_listing(text: str) -> dict[str, Operation]:
    """The operations of compiled programs by name, and by that of their kernel."""
    found = {}
    for match in DEFINITION.finditer(text):
        name, result, kind = match.groups()
        source = SOURCE.search(match[0])
        steps = source[1].split("/") if source else []
        operation = Operation(kind, NOT_SHAPE.sub("", result), "/".join(steps[-2:]))
        found[name] = found[re.sub(r"[.-]", "_", name)] = operation
    return found


def ranked(
    events: list[tuple[str, float]], known: dict[str, Operation], updates: int
) -> list[dict[str, Any]]:
    times: dict[str, list[float]] = {}
    for name, nanoseconds in events:
        operation = known.get(name)
        if operation is None or operation.kind not in CONTAINERS:
            times.setdefault(name, []).append(nanoseconds)
    total = sum(map(sum, times.values()))
    rows = []
    for name, own in sorted(times.items(), key=lambda item: -sum(item[1])):
        operation = known.get(name, Operation("", "", ""))
        rows.append(
            {
                "operation": name,
                "us_per_update": sum(own) / 1e3 / updates,
                "share": sum(own) / total,
                "times_per_update": len(own) / updates,
                **operation._asdict(),
            }
        )
    return rows
