"""A sweep: groups of runs as tasks of a cluster, each to its end, whatever dies on the way."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import jax
from rich.console import Console
from rich.file_proxy import FileProxy

from lfiw.acting.collector import probe_all
from lfiw.cluster.ray import (
    ClusterConfig,
    connected,
    first_line,
    living_nodes,
    refuse_impossible,
    share_of,
)
from lfiw.cluster.task import DONE, FAILED, TRAINING, WAITING, Group
from lfiw.errors import InputError, RunError
from lfiw.learning.config import TrainConfig, check, warnings
from lfiw.learning.learner import state_bytes
from lfiw.runs.layout import method_folder
from lfiw.settings import conformed
from lfiw.training.folder import Training, check_disk, refuse_twins
from lfiw.training.progress import show_progress
from lfiw.training.resume import is_begun, refuse_other_settings
from lfiw.training.side_by_side import stop_on_signal

POLL_SECONDS = 1.0
MAX_FRUITLESS_DEATHS = 10  # of a group that has not reached another checkpoint in between
STARVATION_SECONDS = 300.0  # how long a lost node may take to be replaced
STOP_SECONDS = 60.0  # for tasks to save when the sweep is interrupted

SHOWN_FIRST = (FAILED, TRAINING, WAITING, DONE)


def train_sweep(
    configs: Sequence[TrainConfig],
    cluster: ClusterConfig,
    *,
    out: str | Path = "runs",
    label: str = "",
    workers: int | None = None,
    quiet: bool = False,
) -> list[Training]:
    """As `train_all`, on a cluster; what is finished or begun with the same settings counts."""
    configs = [conformed(config) for config in configs]
    for config in configs:
        check(config)
    runs = [Training(method_folder(out, c.env.id, c.method, label), c) for c in configs]
    run_sweep(runs, cluster, workers, Console(quiet=quiet, stderr=True, markup=False))
    return runs


def run_sweep(
    runs: Sequence[Training], cluster: ClusterConfig, workers: int | None, console: Console
) -> None:
    """Bring all method folders to their end; raises a sentence for each that failed."""
    refuse_twins([run.folder for run in runs])
    for run in runs:
        if is_begun(run.folder):
            refuse_other_settings(run)
    say = partial(console.print, highlight=False, soft_wrap=True)
    for run in runs:
        for warning in warnings(run.config):
            say(f"Note: {warning}")
    groups = [Group(run) for run in runs]
    todo = [group for group in groups if group.progress.state != DONE]
    if not todo:
        return
    needed = bytes_needed(todo)
    check_disk(sum(needed.values()), [group.run.folder for group in todo])
    with connected(cluster.address) as ray:
        nodes = living_nodes(ray)
        for group in todo:
            name, num_seeds = group.progress.name, len(group.run.config.seeds)
            group.share = share_of(num_seeds, needed[name], nodes, cluster)
            refuse_impossible(name, group.share, nodes)
        say(f"Groups to train: {len(todo)}; nodes of the cluster: {len(nodes)}")
        Sweep(ray, groups, workers, console).run()
    if failed := [group.failure for group in groups if group.failure]:
        raise RunError(" ".join(failed))


def bytes_needed(groups: Sequence[Group]) -> dict[str, int]:
    """Memory of all runs of each group."""
    jax.config.update("jax_platforms", "cpu")  # the GPUs are for the tasks
    configs = [group.run.config for group in groups]
    probed = probe_all([config.env for config in configs])
    return {
        group.progress.name: len(config.seeds) * state_bytes(config, spec)
        for group, config, (spec, _) in zip(groups, configs, probed, strict=True)
    }


class Sweep:
    """Submits all groups and looks after them; the cluster decides which train at once."""

    def __init__(
        self, ray: Any, groups: Sequence[Group], workers: int | None, console: Console
    ) -> None:
        self.ray = ray
        self.groups = groups
        self.workers = workers
        self.say = partial(console.print, highlight=False, soft_wrap=True)
        self.console = console
        self.shown = [group.progress for group in groups]
        self.starving_since: float | None = None

    def run(self) -> None:
        stop = threading.Event()
        # Ray tells about dead processes on standard output, which is for results. The display
        # leaves a proxy alone, and this one is silent.
        silence = cast(IO[str], FileProxy(Console(quiet=True), sys.stdout))
        with stop_on_signal(stop), redirect_stdout(silence):
            for group in self.groups:
                if group.progress.state != DONE:
                    group.submit(self.ray, self.workers)
            show_progress(
                self.summary,
                self.shown,
                lambda: not stop.is_set() and self.advance(),
                self.console,
            )
            if stop.is_set():
                self.cancel()
                raise KeyboardInterrupt("the same command goes on")

    def summary(self) -> str:
        counts = Counter(group.progress.state for group in self.groups)
        states = (f"{counts[state]} {state}" for state in (DONE, TRAINING, WAITING, FAILED))
        return f"{len(self.groups)} groups, {', '.join(states)}"

    def advance(self) -> bool:
        """Deal with what has happened since the last call; says whether more is to come."""
        tasks = {group.task: group for group in self.groups if group.task is not None}
        if not tasks:
            return False
        ended, _ = self.ray.wait(list(tasks), num_returns=len(tasks), timeout=POLL_SECONDS)
        for group in tasks.values():
            group.look()
        for task in ended:
            self.settle(tasks[task])
        self.give_up_starving()
        self.shown.sort(key=lambda progress: SHOWN_FIRST.index(progress.state))
        return any(group.task is not None for group in self.groups)

    def settle(self, group: Group) -> None:
        """A task ends well, fails for a reason that would come again, or dies and is repeated."""
        errors = self.ray.exceptions
        name = group.progress.name
        try:
            self.ray.get(group.task)
        except errors.RayTaskError as error:
            group.end(FAILED, reason(error.cause or error))
        except errors.RayError as error:
            group.deaths += 1
            death = f"{type(error).__name__}: {first_line(error)}"
            if group.deaths < MAX_FRUITLESS_DEATHS:
                self.say(f"{name} died and is taken up again ({death})")
                group.submit(self.ray, self.workers)
                return
            group.end(
                FAILED,
                f"it died {group.deaths} times in a row without getting further, at "
                f"last with {death}",
            )
        else:
            group.end(DONE)
        self.say(f"{group.failure or f'{name} is complete'} ({self.summary()})")

    def give_up_starving(self) -> None:
        """Nodes may be lost for good: then nothing is waited for that cannot come."""
        waiting = [group for group in self.groups if group.progress.state == WAITING]
        nodes = living_nodes(self.ray)
        starving = [group for group in waiting if not any(map(group.share.fits, nodes))]
        if not starving:
            self.starving_since = None
            return
        self.starving_since = self.starving_since or time.monotonic()
        if time.monotonic() - self.starving_since < STARVATION_SECONDS:
            return
        for group in starving:
            self.ray.cancel(group.task)
            group.end(FAILED, f"no node is left that has {group.share}.")

    def cancel(self) -> None:
        """Ask all tasks to save and stop, and wait for them."""
        tasks = [group.task for group in self.groups if group.task is not None]
        self.say("Stopping; the same command goes on with the sweep.")
        for task in tasks:
            self.ray.cancel(task)
        self.ray.wait(tasks, num_returns=len(tasks), timeout=STOP_SECONDS)


def reason(cause: BaseException) -> str:
    if isinstance(cause, InputError | RunError):
        return str(cause)
    return f"{type(cause).__name__}: {first_line(cause)}."
