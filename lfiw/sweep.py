"""A sweep: groups of runs as tasks of a cluster, each to its end, whatever dies on the way."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import jax
from rich.console import Console
from rich.file_proxy import FileProxy

from lfiw.checkpoint import Damaged, list_checkpoints, read_manifest
from lfiw.cluster import (
    ClusterConfig,
    Share,
    connected,
    first_line,
    is_begun,
    living_nodes,
    lock_time,
    refuse_impossible,
    share_of,
    submit,
)
from lfiw.config import TrainConfig, check, config_from_json, config_to_json, warnings
from lfiw.envs import probe_env
from lfiw.errors import InputError, RunError
from lfiw.learner import state_bytes
from lfiw.member import Progress
from lfiw.progress import show_progress
from lfiw.runlog import read_config, run_folder
from lfiw.settings import walk
from lfiw.training import Run, check_disk, refuse_twins, stop_on_signal

POLL_SECONDS = 1.0
MAX_FRUITLESS_DEATHS = 10  # of a group that has not reached another checkpoint in between
STARVATION_SECONDS = 300.0  # how long a lost node may take to be replaced
STOP_SECONDS = 60.0  # for tasks to save when the sweep is interrupted

WAITING, TRAINING, DONE, FAILED = "waiting", "training", "done", "failed"
SHOWN_FIRST = (FAILED, TRAINING, WAITING, DONE)


def train_sweep(
    configs: Sequence[TrainConfig],
    cluster: ClusterConfig,
    *,
    out: str | Path = "runs",
    label: str = "",
    workers: int | None = None,
    quiet: bool = False,
) -> list[Run]:
    """As `train_all`, on a cluster; what is finished or begun with the same settings counts."""
    for config in configs:
        check(config)
    runs = [Run(run_folder(out, c.env.id, c.method, label), c) for c in configs]
    run_sweep(runs, cluster, workers, Console(quiet=quiet, stderr=True))
    return runs


def run_sweep(
    runs: Sequence[Run], cluster: ClusterConfig, workers: int | None, console: Console
) -> None:
    """Bring all run folders to their end; raises a sentence for each that failed."""
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
    with connected(cluster.address) as ray:  # before jax starts: Ray forks
        nodes = living_nodes(ray)
        needed = {group.progress.name: bytes_of(group.run.config) for group in todo}
        check_disk(sum(needed.values()), [group.run.folder for group in todo])
        for group in todo:
            name, num_seeds = group.progress.name, len(group.run.config.seeds)
            group.share = share_of(num_seeds, needed[name], nodes, cluster)
            refuse_impossible(name, group.share, nodes)
        say(f"{len(todo)} groups to train on {len(nodes)} nodes")
        Sweep(ray, groups, workers, console).run()
    if failed := [group.failure for group in groups if group.failure]:
        raise RunError(" ".join(failed))


def bytes_of(config: TrainConfig) -> int:
    """Memory of all runs of a method."""
    jax.config.update("jax_platforms", "cpu")  # the GPUs are for the tasks
    spec, _ = probe_env(config.env)
    return len(config.seeds) * state_bytes(config, spec)


def is_complete(run: Run) -> bool:
    """The newest checkpoint is of the last step, and not within a phase."""
    try:
        newest = list_checkpoints(run.folder)[:1]
        facts = read_manifest(newest[0])["facts"] if newest else {}
    except Damaged:
        return False
    return facts.get("env_steps") == run.config.env_steps and facts["episodes"] is None


def refuse_other_settings(run: Run) -> None:
    """A folder that is taken up, or taken as finished, must hold the run that is meant."""
    there = config_from_json(read_config(run.folder)["config"])
    values = {name: value for name, _, value in walk(there)}
    differences = [
        f"{name} {values.get(name)} there, {value} here"
        for name, _, value in walk(run.config)
        if values.get(name) != value and not name.startswith("checkpoint.")
    ]
    if differences:
        raise InputError(
            f"{run.folder} holds another run ({'; '.join(differences)}); choose another --out."
        )


@dataclass
class Group:
    """A run folder on its way: its task, if it has one, and what is known of it."""

    run: Run
    share: Share = field(init=False)
    task: Any = None
    lock_time: int = 0  # when the task was submitted
    deaths: int = 0  # since the last checkpoint
    checkpoint: str = ""  # the newest one when the task was submitted
    failure: str = ""
    progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        folder, config = self.run.folder, self.run.config
        name = "/".join(folder.parts[-2:])
        self.progress = Progress(name, config.env_steps, len(config.seeds))
        self.log = LogReader(folder / "metrics.jsonl", self.progress)
        self.log.read()
        self.progress.state = DONE if is_complete(self.run) else WAITING

    def submit(self, ray: Any, workers: int | None) -> None:
        folder = self.run.folder.absolute()
        self.lock_time = lock_time(folder)
        newest = next((path.name for path in list_checkpoints(folder)), "")
        self.deaths = self.deaths if newest == self.checkpoint else 0
        self.checkpoint = newest
        config = config_to_json(self.run.config)
        self.task = submit(ray, folder, config, self.share, workers)
        self.progress.state = WAITING

    def look(self) -> None:
        """Read what the task has written so far."""
        if self.task is not None and lock_time(self.run.folder) != self.lock_time:
            self.progress.state = TRAINING
        self.log.read()

    def end(self, state: str, failure: str = "") -> None:
        self.task = None
        self.progress.state = state
        self.failure = f"{self.progress.name} failed: {failure}" if failure else ""


class LogReader:
    """Follows the log of a group, from wherever it is trained."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self.path = path
        self.progress = progress
        self.position = 0

    def read(self) -> None:
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self.position:
                    self.position = 0  # a resumed run has cut its log
                file.seek(self.position)
                whole, newline, _ = file.read().rpartition(b"\n")
        except OSError:
            return
        self.position += len(whole) + len(newline)
        for line in whole.splitlines():
            self._show(json.loads(line))

    def _show(self, row: dict[str, Any]) -> None:
        if row["kind"] == "eval":
            self.progress.on_eval(row)
        else:
            self.progress.env_steps = row["env_steps"]
            self.progress.updates = row["updates"]


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
                raise KeyboardInterrupt

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
            group.end(FAILED, reason(error.cause))
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
