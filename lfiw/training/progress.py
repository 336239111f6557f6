"""How training goes, as a display tells it: its numbers, their words and their table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from rich import box
from rich.table import Table

from lfiw.runs.read import EVALUATIONS
from lfiw.runs.rows import Row
from lfiw.wording import duration, one_line, short_count, spread

WITH_UPDATES = 100  # columns, from which on updates are shown too


class Evaluation(NamedTuple):
    env_steps: int
    returns: dict[int, float]  # by seed


@dataclass
class Progress:
    """What the display reads while a method trains."""

    name: str
    total_env_steps: int
    num_runs: int
    env_steps: int = 0
    updates: int = 0
    evaluations: list[Evaluation] = field(default_factory=list)  # that all runs have had
    under_way: dict[int, dict[int, float | None]] = field(default_factory=dict)  # the others
    faults: int = 0  # failures of environments that were survived
    stopped: list[int] = field(default_factory=list)  # seeds that were given up
    ended: list[int] = field(default_factory=list)  # seeds that were ended on purpose
    warnings: list[str] = field(default_factory=list)  # sentences to show once
    state: str = "starting"

    def on_row(self, row: Row) -> None:
        """Read a row of the log."""
        self.faults += len(row.get("faults", ()))
        if row["kind"] in EVALUATIONS:
            found = self.under_way.setdefault(row["env_steps"], {})
            found[row["seed"]] = row.get("return_mean")
        if row["kind"] == "stopped":
            self.stopped.append(row["seed"])
        if row["kind"] == "ended":
            self.ended.append(row["seed"])
        if row["kind"] == "warning" and self.state != "starting":  # then it is an old one
            where = f"{self.name} seed {row['seed']} at {row['env_steps']:,} steps"
            self.warnings.append(f"Warning: {where}: {one_line(str(row.get('reason')))}.")
        for env_steps in sorted(self.under_way):
            self._complete(env_steps)

    def _complete(self, env_steps: int) -> None:
        """An evaluation is shown when every run that goes on has had it."""
        found = self.under_way[env_steps]
        live = {seed: mean for seed, mean in found.items() if seed not in self.stopped}
        if len(live) < self.num_runs - len({*self.stopped, *self.ended}):
            return
        del self.under_way[env_steps]
        if returns := {seed: mean for seed, mean in live.items() if mean is not None}:
            self.evaluations.append(Evaluation(env_steps, returns))


class Rate:
    """Environment steps per second over all runs, and the time left at that rate."""

    def __init__(self, methods: Sequence[Progress]) -> None:
        self._methods = methods
        self._started: float | None = None
        self._first = 0

    def _done(self) -> int:
        return sum(method.env_steps * method.num_runs for method in self._methods)

    def read(self) -> tuple[float, float | None]:
        done = self._done()
        if self._started is None:
            # Random first steps, compilation and what a checkpoint holds say nothing about the
            # rate to come.
            started = all(method.state != "starting" for method in self._methods)
            if started and any(method.updates for method in self._methods):
                self._started, self._first = time.monotonic(), done
            return 0.0, None
        seconds = time.monotonic() - self._started
        rate = (done - self._first) / seconds if seconds > 1 else 0.0
        total = sum(method.total_env_steps * method.num_runs for method in self._methods)
        return rate, (total - done) / rate if rate else None


def return_text(method: Progress, evaluation: Evaluation) -> str:
    """Over the seeds that go on."""
    values = [mean for seed, mean in evaluation.returns.items() if seed not in method.stopped]
    return spread(np.array(values)) if values else "-"


def troubles(method: Progress) -> str:
    """What a user should look at, led by a comma; nothing where all is well."""
    faults = f", {method.faults} fault{'s' * (method.faults > 1)}" if method.faults else ""
    stopped = "".join(f", seed {seed} stopped" for seed in method.stopped)
    ended = "".join(f", seed {seed} ended" for seed in method.ended)
    return faults + stopped + ended


# What is waited for in each state, once the user asked to stop.
WAITS = {
    "starting": "environments to start",
    "compiling": "the compiler",
    "training": "the current call",
    "evaluating": "evaluations",
    "saving": "the checkpoint",
}


def stopping_text(methods: Sequence[Progress], way_out: str) -> str:
    """The answer to a signal: what is waited for, and what does not wait."""
    states = {method.state for method in methods}
    waits = [wait for state, wait in WAITS.items() if state in states] or ["the end"]
    return f"Stopping: waiting for {' and '.join(waits)}; {way_out} ends at once."


class View(NamedTuple):
    """What a display shows at one moment."""

    title: str
    methods: Sequence[Progress]
    rate: float  # environment steps per second over all runs
    left: float | None  # seconds


def live_table(view: View, width: int = WITH_UPDATES) -> Table:
    """Fits 80 columns: numbers are short, names and states are folded."""
    speed = f"{view.rate:,.0f} steps/s" if view.rate else "starting"
    remaining = f", {duration(view.left)} left" if view.left is not None else ""
    table = Table(
        title=f"{view.title}: {speed} over all runs{remaining}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("method", overflow="fold")
    updates = ("updates",) if width >= WITH_UPDATES else ()
    for heading in ("seeds", "env steps", *updates, "return", "at"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    for method in view.methods:
        newest = method.evaluations[-1] if method.evaluations else None
        table.add_row(
            method.name,
            str(method.num_runs),
            f"{short_count(method.env_steps)} / {short_count(method.total_env_steps)}",
            *(short_count(method.updates) for _ in updates),
            return_text(method, newest) if newest else "-",
            short_count(newest.env_steps) if newest else "-",
            method.state + troubles(method),
        )
    return table
