"""Showing how training goes: a live table on a terminal, plain lines elsewhere. No jax here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

from lfiw.runlog import Row

REFRESH_SECONDS = 0.25


@dataclass
class Progress:
    """What the display reads while a method trains."""

    name: str
    total_env_steps: int
    num_runs: int
    env_steps: int = 0
    updates: int = 0
    returns: dict[int, float] = field(default_factory=dict)  # by seed, all of one evaluation
    evaluated_at: int = 0
    faults: int = 0  # failures of environments that were survived
    stopped: list[int] = field(default_factory=list)  # seeds that were given up
    state: str = "starting"
    # Evaluations that some runs still wait for: by environment steps and seed.
    under_way: dict[int, dict[int, float | None]] = field(default_factory=dict)

    def on_row(self, row: Row) -> None:
        """Read a row of the log."""
        self.faults += len(row.get("faults", ()))
        if row["kind"] in ("eval", "failed eval"):
            found = self.under_way.setdefault(row["env_steps"], {})
            found[row["seed"]] = row.get("return_mean")
        if row["kind"] == "stopped":
            self.returns.pop(row["seed"], None)
            self.stopped.append(row["seed"])
        self._show_complete()

    def _show_complete(self) -> None:
        """Returns are shown when every run that goes on has had the evaluation."""
        for env_steps in sorted(self.under_way):
            found = self.under_way[env_steps]
            live = {seed: found[seed] for seed in found if seed not in self.stopped}
            if len(live) == self.num_runs - len(self.stopped):
                self.returns = {seed: mean for seed, mean in live.items() if mean is not None}
                self.evaluated_at = env_steps
                self.under_way = {at: own for at, own in self.under_way.items() if at > env_steps}


def count(number: int, noun: str) -> str:
    """Such as '1 run' or '2 runs'."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


class Rate:
    """Environment steps per second over all runs, and the time left at that rate."""

    def __init__(self, groups: Sequence[Progress]) -> None:
        self._groups = groups
        self._started: float | None = None
        self._first = 0

    def _done(self) -> int:
        return sum(group.env_steps * group.num_runs for group in self._groups)

    def read(self) -> tuple[float, float | None]:
        done = self._done()
        if self._started is None:
            # Random first steps, compilation and what a checkpoint holds say nothing about the
            # rate to come.
            started = all(group.state != "starting" for group in self._groups)
            if started and any(group.updates for group in self._groups):
                self._started, self._first = time.monotonic(), done
            return 0.0, None
        seconds = time.monotonic() - self._started
        rate = (done - self._first) / seconds if seconds > 1 else 0.0
        total = sum(group.total_env_steps * group.num_runs for group in self._groups)
        return rate, (total - done) / rate if rate else None


def latest_return(group: Progress) -> str:
    if not group.returns:
        return "-"
    values = list(group.returns.values())
    spread = f" ± {np.std(values):,.0f}" if len(values) > 1 else ""
    return f"{np.mean(values):,.0f}{spread}"


def troubles(group: Progress) -> str:
    """What a user should look at, led by a comma; nothing where all is well."""
    faults = f", {group.faults} fault{'s' * (group.faults > 1)}" if group.faults else ""
    stopped = "".join(f", seed {seed} stopped" for seed in group.stopped)
    return faults + stopped


def live_table(title: str, groups: Sequence[Progress], rate: float, left: float | None) -> Table:
    speed = f"{rate:,.0f} steps/s" if rate else "starting"
    remaining = f", {duration(left)} left" if left is not None else ""
    table = Table(title=f"{title}: {speed} over all runs{remaining}", title_justify="left")
    table.add_column("method")
    for heading in ("seeds", "environment steps", "updates", "return", "evaluated at"):
        table.add_column(heading, justify="right")
    table.add_column("state")
    for group in groups:
        table.add_row(
            group.name,
            str(group.num_runs),
            f"{group.env_steps:,} / {group.total_env_steps:,}",
            f"{group.updates:,}",
            latest_return(group),
            f"{group.evaluated_at:,}" if group.returns else "-",
            group.state + troubles(group),
        )
    return table


def show_progress(
    title: Callable[[], str],
    groups: Sequence[Progress],
    running: Callable[[], bool],
    console: Console,
) -> None:
    """Show the groups until `running` says no; called in the main thread."""
    rate = Rate(groups)
    if not console.is_terminal:
        _print_lines(groups, running, console, rate)
        return
    with Live(console=console, refresh_per_second=4) as live:
        while running():
            live.update(live_table(title(), groups, *rate.read()))
            time.sleep(REFRESH_SECONDS)
        live.update(live_table(title(), groups, *rate.read()))


def _print_lines(
    groups: Sequence[Progress], running: Callable[[], bool], console: Console, rate: Rate
) -> None:
    printed = {id(group): 0 for group in groups}
    alive = True
    while alive:
        alive = running()
        speed, left = rate.read()
        for group in groups:
            if group.returns and group.evaluated_at > printed[id(group)]:
                printed[id(group)] = group.evaluated_at
                pace = f", {speed:,.0f} steps/s" if speed else ""
                remaining = f", {duration(left)} left" if left is not None and alive else ""
                console.print(
                    f"{group.name}: {group.evaluated_at:,} of {group.total_env_steps:,} steps, "
                    f"return {latest_return(group)}{troubles(group)}{pace}{remaining}",
                    highlight=False,
                    soft_wrap=True,
                )
        time.sleep(REFRESH_SECONDS)
