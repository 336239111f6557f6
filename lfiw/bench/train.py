"""Training from start to end, as `lfiw train` does it, watched from outside.

Nothing in the trainer knows of it: the three methods that collect, learn and train are
wrapped for the time of the benchmark.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax

from lfiw.bench.result import BenchResult
from lfiw.learning.config import TrainConfig
from lfiw.learning.team import Team
from lfiw.training import train_all
from lfiw.training.member import Member
from lfiw.training.trainer import Trainer

Span = tuple[float, float]  # from when to when
WATCHING_THREADS = 32  # a team has at most two calls in flight


def covered(spans: Iterable[Span], until: float) -> float:
    """The time before `until` that lies in at least one of the spans."""
    total, reached = 0.0, float("-inf")
    for start, stop in sorted(spans):
        start, stop = max(start, reached), min(stop, until)
        if stop > start:
            total += stop - start
            reached = stop
    return total


@dataclass
class MethodTimes:
    """When a method collected and learned, on the clock of `time.perf_counter`."""

    collecting: list[Span] = field(default_factory=list)
    learning: list[Span] = field(default_factory=list)
    first_update: float | None = None
    finished: float = 0.0


class Watch:
    """Wraps the trainer's methods; `methods` then holds the times of each method."""

    def __init__(self) -> None:
        self.methods: dict[str, MethodTimes] = defaultdict(MethodTimes)

    @contextmanager
    def installed(self) -> Iterator[None]:
        with ExitStack() as stack:
            # Left before the patches are undone: waits for the last calls.
            self._waiting = ThreadPoolExecutor(WATCHING_THREADS, "watch")
            for owner, name, wrap in (
                (Trainer, "run", self._run),
                (Member, "collect", self._collect),
                (Team, "learn", self._learn),
            ):
                original = getattr(owner, name)
                setattr(owner, name, wrap(original))
                stack.callback(setattr, owner, name, original)
            stack.enter_context(self._waiting)
            yield

    def _run(self, original: Any) -> Any:
        def run(trainer: Trainer, *arguments: Any) -> None:
            try:
                original(trainer, *arguments)
            finally:
                for member in trainer.members:
                    self.methods[member.config.method].finished = time.perf_counter()

        return run

    def _collect(self, original: Any) -> Any:
        def collect(member: Member, *arguments: Any) -> Any:
            started = time.perf_counter()
            collected = original(member, *arguments)
            self.methods[member.config.method].collecting.append((started, time.perf_counter()))
            return collected

        return collect

    def _learn(self, original: Any) -> Any:
        def learn(team: Team, *arguments: Any) -> None:
            methods = [self.methods[config.method] for config in team.configs]
            started = time.perf_counter()
            original(team, *arguments)
            if methods[0].first_update is None:
                # The first call compiles before it starts: no work of the device.
                started = time.perf_counter()
                for times in methods:
                    times.first_update = started
            self._waiting.submit(self._wait, methods, started, team.in_flight[-1])

        return learn

    def _wait(self, methods: list[MethodTimes], started: float, metrics: Any) -> None:
        # The metrics only: the state is donated to the next call.
        jax.block_until_ready(metrics)
        for times in methods:
            times.learning.append((started, time.perf_counter()))


def command_started() -> float:
    """When this process started, on the clock of `time.perf_counter`; now, where the system
    does not say."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot
    except (OSError, ValueError, IndexError, AttributeError):
        age = 0.0
    return time.perf_counter() - max(0.0, age)


def row_of(
    names: dict[str, Any], env_steps: int, times: MethodTimes, busy: list[Span], started: float
) -> dict[str, Any]:
    """`names` say the method and its number of seeds, `busy` when the device worked."""
    wall = times.finished - started
    first_step = min(start for start, _ in times.collecting)
    first_update = times.first_update
    return {
        **names,
        "env_steps": env_steps,
        "wall_seconds": wall,
        "env_steps_per_s": names["seeds"] * env_steps / wall,
        "first_env_step_s": first_step - started,
        "first_update_s": None if first_update is None else first_update - first_step,
        "device_busy": round(covered(busy, times.finished) / wall, 4),
        "workers_busy": round(covered(times.collecting, times.finished) / wall, 4),
        "device_busy_while_learning": busy_between_updates(times, busy),
    }


def busy_between_updates(times: MethodTimes, busy: list[Span]) -> float | None:
    """The share of the time from a method's first update to the end of its last."""
    if times.first_update is None:
        return None
    end = max(stop for _, stop in times.learning)
    return round(
        (covered(busy, end) - covered(busy, times.first_update)) / (end - times.first_update), 4
    )


def joined(methods: Sequence[MethodTimes]) -> MethodTimes:
    """All methods as one."""
    updates = [method.first_update for method in methods if method.first_update is not None]
    return MethodTimes(
        collecting=[span for method in methods for span in method.collecting],
        learning=[span for method in methods for span in method.learning],
        first_update=min(updates, default=None),
        finished=max(method.finished for method in methods),
    )


def bench_train(
    configs: Sequence[TrainConfig],
    workers: int | None = None,
    started: float | None = None,
    quiet: bool = False,
) -> BenchResult:
    """Train all methods side by side; `started` is when the command began (default: now)."""
    started = time.perf_counter() if started is None else started
    watch = Watch()
    with tempfile.TemporaryDirectory(prefix="lfiw-bench-") as out, watch.installed():
        train_all(configs, out=out, workers=workers, quiet=quiet)
    methods = [watch.methods[config.method] for config in configs]
    together = joined(methods)
    rows = []
    for config, times in zip(configs, methods, strict=True):
        names = {"agent": config.agent.name, "replay": config.replay.name}
        names |= {"seeds": len(config.seeds)}
        rows.append(row_of(names, config.env_steps, times, together.learning, started))
    if len(configs) > 1:
        seeds = sum(len(config.seeds) for config in configs)
        names = {"agent": "all", "replay": "all", "seeds": seeds}
        env_steps = configs[0].env_steps
        rows.append(row_of(names, env_steps, together, together.learning, started))
    title = f"Training on {jax.devices()[0].device_kind}, {configs[0].env.id}"
    notes = (
        "wall_seconds and first_env_step_s count from the start of the command, first_update_s "
        "from the first environment step, with compilation unless an earlier run left its "
        "programs in the cache",
        "busy: shares of wall_seconds; the device while updates of any method are in flight, the "
        "workers while the method's environments are stepped; device_busy_while_learning: of the "
        "time from the first update to the end of the last",
    )
    return BenchResult(title, rows, notes)
