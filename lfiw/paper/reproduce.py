"""Running experiments: say what they take, train what is missing, analyse."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from lfiw.cluster.ray import ClusterConfig
from lfiw.cluster.supervisor import supervise
from lfiw.errors import InputError
from lfiw.learning.config import check, config_from_json
from lfiw.paper.cells import SCALES, Cell, Experiment, Study, config_of, training_of
from lfiw.paper.experiments import EXPERIMENTS, OF_PAPER
from lfiw.paper.workload import measure
from lfiw.runs.config_file import read_config
from lfiw.runs.layout import find_folders
from lfiw.runs.read import is_begun
from lfiw.runs.recovery import is_finished
from lfiw.runs.trust import trusted_config
from lfiw.settings import pick
from lfiw.training.display import message_console
from lfiw.training.folder import Training
from lfiw.training.jobs import Job
from lfiw.training.resume import (
    conditions,
    refuse_differences,
    refuse_other_settings,
    take_up,
)
from lfiw.training.start import run_jobs
from lfiw.wording import count

ALL = "all"


@dataclass(frozen=True)
class Selection:
    """A part of the experiments; an empty entry leaves everything in."""

    tasks: Sequence[str] = ()
    methods: Sequence[str] = ()
    seeds: Sequence[int] = ()


def find_experiments(name: str) -> dict[str, Experiment]:
    if name == ALL:
        return OF_PAPER
    pick(name, {**EXPERIMENTS, ALL: None}, "experiment")
    return {name: EXPERIMENTS[name]}


def select_cells(
    experiments: Mapping[str, Experiment], scale: str, selection: Selection
) -> dict[str, list[Cell]]:
    """The chosen cells of each experiment; one of which nothing is left is dropped."""
    cells = [cell for experiment in experiments.values() for cell in experiment.cells]
    if selection != Selection() and not cells:
        raise InputError(f"{', '.join(experiments)} trains nothing: there is nothing to select.")
    for task in selection.tasks:
        pick(task, dict.fromkeys(cell.task for cell in cells), "task")
    for method in selection.methods:
        pick(method, dict.fromkeys(cell.method for cell in cells), "method")

    def chosen(cell: Cell, experiment: Experiment) -> bool:
        return cell.task in (selection.tasks or experiment.default_tasks(scale)) and (
            not selection.methods or cell.method in selection.methods
        )

    found = {
        name: [cell for cell in experiment.cells if chosen(cell, experiment)]
        for name, experiment in experiments.items()
    }
    kept = {
        name: left
        for name, left in found.items()
        if left or (selection == Selection() and not experiments[name].cells)
    }
    if not kept:
        raise InputError("No run is both of the chosen --tasks and of the chosen --methods.")
    return kept


def plan_cells(
    cells: Sequence[Cell], scale: str, seeds: Sequence[int], out: Path
) -> list[Training]:
    trainings = []
    for cell in cells:
        config = config_of(cell, SCALES[scale])
        if seeds:
            config = dataclasses.replace(config, seeds=tuple(seeds))
        check(config)
        trainings.append(training_of(cell, config, out))
    return trainings


def is_complete(training: Training) -> bool:
    return is_finished(training.folder, training.config.env_steps)


@dataclass(frozen=True)
class Reproduction:
    """How and where experiments are run."""

    scale: str
    out: Path
    workers: int | None = None
    devices: str | None = None
    cluster: ClusterConfig | None = None  # None: this machine, without Ray
    track: Sequence[str] = ()  # trackers that follow what is trained
    console: Console = dataclasses.field(default_factory=message_console)

    def __post_init__(self) -> None:
        pick(self.scale, SCALES, "scale")
        if self.workers is not None and self.workers < 0:
            raise InputError(f"workers must be at least 0, not {self.workers}.")

    def run(self, name: str, selection: Selection) -> list[Path]:
        """The files of one experiment, or of all of the paper; what is finished stays as it is."""
        experiments = find_experiments(name)
        chosen = select_cells(experiments, self.scale, selection)
        plans = {
            name: plan_cells(cells, self.scale, selection.seeds, self.out / experiments[name].root)
            for name, cells in chosen.items()
        }
        for planned in plans.values():
            for training in planned:
                if is_begun(training.folder):
                    refuse_other_settings(training)
        files = []
        for name, planned in plans.items():
            self.announce(name, planned)
            self.train_missing(planned)
            files += self.analyse(name, planned)
        return files

    def analyse_elsewhere(
        self, name: str, folders: Sequence[Path], trust_env: bool = False
    ) -> list[Path]:
        """The files of one experiment from runs that were trained before, by whatever command."""
        pick(name, EXPERIMENTS, "experiment")
        if not EXPERIMENTS[name].cells:
            raise InputError(f"{name} trains nothing: there are no runs to analyse.")
        trainings = [
            Training(folder, config_from_json(trusted_config(folder, trust_env)["config"]))
            for folder in find_folders(folders)
        ]
        return self.analyse(name, trainings)

    def announce(self, name: str, trainings: Sequence[Training]) -> None:
        experiment = EXPERIMENTS[name]
        say = partial(self.console.print, highlight=False, soft_wrap=True)
        say(f"[bold]{name}[/bold], scale {self.scale}: {experiment.title}: {experiment.shows}.")
        if not trainings:
            return
        num_runs = sum(len(training.config.seeds) for training in trainings)
        steps = sum(
            len(training.config.seeds) * training.config.env_steps for training in trainings
        )
        tasks = dict.fromkeys(training.config.env.id for training in trainings)
        complete = sum(map(is_complete, trainings))
        begun = sum(is_begun(training.folder) for training in trainings) - complete
        say(
            f"{count(num_runs, 'run')} in {count(len(trainings), 'folder')} on {', '.join(tasks)}: "
            f"{steps:,} environment steps in all. Finished folders: {complete}; begun, to be "
            f"resumed: {begun}."
        )

    def train_missing(self, trainings: Sequence[Training]) -> None:
        pending = [training for training in trainings if not is_complete(training)]
        if not pending:
            return
        if self.cluster is not None:
            supervise(pending, self.cluster, self.workers, self.console, self.track)
            return
        here = conditions(self.devices)
        for training in pending:
            if is_begun(training.folder):
                refuse_differences(training.folder, read_config(training.folder), here)
        workload = measure(pending, self.devices)
        self.console.print(workload.sentence(), highlight=False, soft_wrap=True)
        for group in workload.rounds:
            with ExitStack() as locks:
                jobs = [
                    take_up(
                        training.folder,
                        here,
                        locks,
                        self.console,
                        trust_env=training.config.env,  # which `refuse_other_settings` compared
                    )
                    if is_begun(training.folder)
                    else Job(training.config, training.folder)
                    for training in group
                ]
                try:
                    run_jobs(jobs, self.workers, self.devices, self.console, track=self.track)
                except KeyboardInterrupt:
                    raise KeyboardInterrupt("the same command goes on") from None

    def analyse(self, name: str, trainings: Sequence[Training]) -> list[Path]:
        say = partial(self.console.print, highlight=False, soft_wrap=True, markup=False)
        if trainings:
            say(f"Analysing {count(len(trainings), 'method folder')}")
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            return EXPERIMENTS[name].analyse(Study(name, self.scale, self.out, trainings, say))
        except OSError as error:
            place = error.filename or self.out
            raise InputError(f"{place} cannot be read or written: {error.strerror}.") from None
