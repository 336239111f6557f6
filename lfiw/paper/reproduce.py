"""Running experiments of the paper: say what they take, train what is missing, analyse."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from lfiw.cluster.ray import ClusterConfig
from lfiw.cluster.sweep import run_sweep
from lfiw.errors import InputError
from lfiw.learning.config import check, config_from_json, pick
from lfiw.paper.cells import SCALES, Cell, Experiment, Study, config_of, run_of
from lfiw.paper.experiments import EXPERIMENTS
from lfiw.paper.workload import measure
from lfiw.runs.config_file import read_config
from lfiw.runs.layout import find_folders, snapshot_file
from lfiw.runs.read import live_seeds, read_metrics
from lfiw.training.folder import Training
from lfiw.training.jobs import Job
from lfiw.training.resume import (
    conditions,
    is_begun,
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
        return EXPERIMENTS
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


def plan_runs(cells: Sequence[Cell], scale: str, seeds: Sequence[int], out: Path) -> list[Training]:
    runs = []
    for cell in cells:
        config = config_of(cell, SCALES[scale])
        if seeds:
            config = dataclasses.replace(config, seeds=tuple(seeds))
        check(config)
        runs.append(run_of(cell, config, out))
    return runs


def is_complete(run: Training) -> bool:
    """Every seed has its last evaluation and its last snapshot, or was stopped for good."""
    if not (run.folder / "metrics.jsonl").is_file():
        return False
    evaluated = {
        row["seed"]
        for row in read_metrics(run.folder, "eval")
        if row["env_steps"] >= run.config.env_steps
    }
    return all(
        seed in evaluated and snapshot_file(run.folder, 100, seed).is_file()
        for seed in live_seeds(run.folder)
    )


@dataclass(frozen=True)
class Reproduction:
    """How and where experiments are run."""

    scale: str
    out: Path
    workers: int | None = None
    devices: str | None = None
    cluster: ClusterConfig | None = None  # None: this machine, without Ray
    console: Console = dataclasses.field(default_factory=lambda: Console(stderr=True))

    def __post_init__(self) -> None:
        pick(self.scale, SCALES, "scale")
        if self.workers is not None and self.workers < 0:
            raise InputError(f"workers must be at least 0, not {self.workers}.")

    def run(self, name: str, selection: Selection) -> list[Path]:
        """The files of one experiment, or of all; what is finished already is not run again."""
        experiments = find_experiments(name)
        chosen = select_cells(experiments, self.scale, selection)
        runs = {
            name: plan_runs(cells, self.scale, selection.seeds, self.out)
            for name, cells in chosen.items()
        }
        for planned in runs.values():
            for run in planned:
                if is_begun(run.folder):
                    refuse_other_settings(run)
        files = []
        for name, planned in runs.items():
            self.announce(name, planned)
            self.train_missing(planned)
            files += self.analyse(name, planned)
        return files

    def analyse_elsewhere(self, name: str, folders: Sequence[Path]) -> list[Path]:
        """The files of one experiment from runs that were trained before, by whatever command."""
        pick(name, EXPERIMENTS, "experiment")
        if not EXPERIMENTS[name].cells:
            raise InputError(f"{name} trains nothing: there are no runs to analyse.")
        runs = [
            Training(folder, config_from_json(read_config(folder)["config"]))
            for folder in find_folders(folders)
        ]
        return self.analyse(name, runs)

    def announce(self, name: str, runs: Sequence[Training]) -> None:
        experiment = EXPERIMENTS[name]
        say = partial(self.console.print, highlight=False, soft_wrap=True)
        say(f"[bold]{name}[/bold], scale {self.scale}: {experiment.title}: {experiment.shows}.")
        if not runs:
            return
        num_runs = sum(len(run.config.seeds) for run in runs)
        steps = sum(len(run.config.seeds) * run.config.env_steps for run in runs)
        tasks = dict.fromkeys(run.config.env.id for run in runs)
        complete = sum(map(is_complete, runs))
        begun = sum(is_begun(run.folder) for run in runs) - complete
        say(
            f"{count(num_runs, 'run')} in {count(len(runs), 'folder')} on {', '.join(tasks)}: "
            f"{steps:,} environment steps in all. Finished folders: {complete}; begun, to be "
            f"resumed: {begun}."
        )

    def train_missing(self, runs: Sequence[Training]) -> None:
        pending = [run for run in runs if not is_complete(run)]
        if not pending:
            return
        if self.cluster is not None:
            run_sweep(pending, self.cluster, self.workers, self.console)
            return
        here = conditions(self.devices)
        for run in pending:
            if is_begun(run.folder):
                refuse_differences(run.folder, read_config(run.folder), here)
        workload = measure(pending, self.devices)
        self.console.print(workload.sentence(), highlight=False, soft_wrap=True)
        for group in workload.rounds:
            with ExitStack() as locks:
                jobs = [
                    take_up(run.folder, here, locks, self.console)
                    if is_begun(run.folder)
                    else Job(run.config, run.folder)
                    for run in group
                ]
                try:
                    run_jobs(jobs, self.workers, self.devices, self.console)
                except KeyboardInterrupt:
                    raise KeyboardInterrupt("the same command goes on") from None

    def analyse(self, name: str, runs: Sequence[Training]) -> list[Path]:
        if runs:
            self.console.print(f"Analysing {count(len(runs), 'method folder')}", highlight=False)
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            return EXPERIMENTS[name].analyse(Study(name, self.scale, self.out, runs))
        except OSError as error:
            place = error.filename or self.out
            raise InputError(f"{place} cannot be read or written: {error.strerror}.") from None
