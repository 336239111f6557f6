"""Methods as tasks of a cluster, each brought to its end, whatever dies on the way."""

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
from lfiw.cluster.task import DONE, FAILED, TRAINING, WAITING, ClusterTask
from lfiw.errors import InputError, RunError
from lfiw.learning.config import TrainConfig, warnings
from lfiw.learning.learner import state_bytes
from lfiw.runs.read import is_begun
from lfiw.tracking import Trackers, tracker_names
from lfiw.tracking.beside import Tracking
from lfiw.training.display import message_console, show_progress
from lfiw.training.folder import Training, check_disk, plan_trainings, refuse_twins
from lfiw.training.resume import refuse_other_settings
from lfiw.training.side_by_side import stop_on_signal

POLL_SECONDS = 1.0
MAX_FRUITLESS_DEATHS = 10  # of a method that has not reached another checkpoint in between
STARVATION_SECONDS = 300.0  # how long a lost node may take to be replaced
STOP_SECONDS = 60.0  # for tasks to save when training is interrupted

SHOWN_FIRST = (FAILED, TRAINING, WAITING, DONE)


def train_on_cluster(
    configs: Sequence[TrainConfig],
    cluster: ClusterConfig,
    *,
    out: str | Path = "runs",
    label: str | Sequence[str] = "",
    workers: int | None = None,
    quiet: bool = False,
    track: Trackers = (),
) -> list[Training]:
    """As `train_all`, on a cluster; what is finished or begun with the same settings counts."""
    names = tracker_names(track)
    trainings = plan_trainings(configs, out, label)
    supervise(trainings, cluster, workers, message_console(quiet), names)
    return trainings


def supervise(
    trainings: Sequence[Training],
    cluster: ClusterConfig,
    workers: int | None,
    console: Console,
    track: Sequence[str] = (),
) -> None:
    """Bring all method folders to their end; raises a sentence for each that failed."""
    refuse_twins([training.folder for training in trainings])
    for training in trainings:
        if is_begun(training.folder):
            refuse_other_settings(training)
    say = partial(console.print, highlight=False, soft_wrap=True, markup=False)
    for training in trainings:
        for warning in warnings(training.config):
            say(f"Note: {warning}")
    tasks = [ClusterTask(training) for training in trainings]
    todo = [task for task in tasks if task.progress.state != DONE]
    if not todo:
        return
    needed = bytes_needed(todo)
    check_disk(sum(needed.values()), [task.training.folder for task in todo])
    with connected(cluster.address) as ray:
        nodes = living_nodes(ray)
        for task in todo:
            name, num_seeds = task.progress.name, len(task.training.config.seeds)
            task.share = share_of(num_seeds, needed[name], nodes, cluster)
            refuse_impossible(name, task.share, nodes)
        say(f"Methods to train: {len(todo)}; nodes of the cluster: {len(nodes)}")
        with Tracking(track, [task.training.folder for task in todo], say):
            Supervisor(ray, tasks, workers, console).run()
    if failed := [task.failure for task in tasks if task.failure]:
        raise RunError(" ".join(failed))


def bytes_needed(tasks: Sequence[ClusterTask]) -> dict[str, int]:
    """Memory of all runs of each method."""
    jax.config.update("jax_platforms", "cpu")  # the GPUs are for the tasks
    configs = [task.training.config for task in tasks]
    probed = probe_all([config.env for config in configs])
    return {
        task.progress.name: len(config.seeds) * state_bytes(config, spec)
        for task, config, (spec, _) in zip(tasks, configs, probed, strict=True)
    }


class Supervisor:
    """Submits all methods and looks after them; the cluster decides which train at once."""

    def __init__(
        self, ray: Any, tasks: Sequence[ClusterTask], workers: int | None, console: Console
    ) -> None:
        self.ray = ray
        self.tasks = tasks
        self.workers = workers
        self.say = partial(console.print, highlight=False, soft_wrap=True)
        self.console = console
        self.shown = [task.progress for task in tasks]
        self.starving_since: float | None = None

    def run(self) -> None:
        stop = threading.Event()
        # Ray tells about dead processes on standard output, which is for results. The display
        # leaves a proxy alone, and this one is silent.
        silence = cast(IO[str], FileProxy(Console(quiet=True), sys.stdout))
        with stop_on_signal(stop), redirect_stdout(silence):
            for task in self.tasks:
                if task.progress.state != DONE:
                    task.submit(self.ray, self.workers)
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
        counts = Counter(task.progress.state for task in self.tasks)
        states = (f"{counts[state]} {state}" for state in (DONE, TRAINING, WAITING, FAILED))
        return f"{len(self.tasks)} methods, {', '.join(states)}"

    def advance(self) -> bool:
        """Deal with what has happened since the last call; says whether more is to come."""
        submitted = {task.reference: task for task in self.tasks if task.reference is not None}
        if not submitted:
            return False
        ended, _ = self.ray.wait(list(submitted), num_returns=len(submitted), timeout=POLL_SECONDS)
        for task in submitted.values():
            task.look()
        for reference in ended:
            self.settle(submitted[reference])
        self.give_up_starving()
        self.shown.sort(key=lambda progress: SHOWN_FIRST.index(progress.state))
        return any(task.reference is not None for task in self.tasks)

    def settle(self, task: ClusterTask) -> None:
        """A task ends well, fails for a reason that would come again, or dies and is repeated."""
        errors = self.ray.exceptions
        name = task.progress.name
        try:
            self.ray.get(task.reference)
        except errors.RayTaskError as error:
            task.end(FAILED, reason(error.cause or error))
        except errors.RayError as error:
            task.deaths += 1
            death = f"{type(error).__name__}: {first_line(error)}"
            if task.deaths < MAX_FRUITLESS_DEATHS:
                self.say(f"{name} died and is taken up again ({death})")
                task.submit(self.ray, self.workers)
                return
            task.end(
                FAILED,
                f"it died {task.deaths} times in a row without getting further, at "
                f"last with {death}",
            )
        else:
            task.end(DONE)
        self.say(f"{task.failure or f'{name} is complete'} ({self.summary()})")

    def give_up_starving(self) -> None:
        """Nodes may be lost for good: then nothing is waited for that cannot come."""
        waiting = [task for task in self.tasks if task.progress.state == WAITING]
        nodes = living_nodes(self.ray)
        starving = [task for task in waiting if not any(map(task.share.fits, nodes))]
        if not starving:
            self.starving_since = None
            return
        self.starving_since = self.starving_since or time.monotonic()
        if time.monotonic() - self.starving_since < STARVATION_SECONDS:
            return
        for task in starving:
            self.ray.cancel(task.reference)
            task.end(FAILED, f"no node is left that has {task.share}.")

    def cancel(self) -> None:
        """Ask all tasks to save and stop, and wait for them."""
        references = [task.reference for task in self.tasks if task.reference is not None]
        self.say("Stopping; the same command goes on.")
        for reference in references:
            self.ray.cancel(reference)
        self.ray.wait(references, num_returns=len(references), timeout=STOP_SECONDS)


def reason(cause: BaseException) -> str:
    if isinstance(cause, InputError | RunError):
        return str(cause)
    return f"{type(cause).__name__}: {first_line(cause)}."
