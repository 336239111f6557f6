"""`lfiw reproduce`: the options are the fields."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from lfiw.cli.options import Flag, OnCluster, TrackWith, TrustEnv, parse_seeds, split_names, unset
from lfiw.errors import InputError
from lfiw.tracking import tracker_names


@dataclass
class Reproduce(OnCluster):
    """Repeat an experiment; interrupted, the same command goes on where it was."""

    name: Annotated[str | None, tyro.conf.Positional, unset("NAME")] = None
    """The experiment, or `all` of the paper."""
    list: Flag = False
    """List the experiments."""
    scale: str = "smoke"
    """smoke: minutes on two cores; small: a tenth of the paper's steps; paper: the real thing."""
    out: Annotated[Path | None, unset("PATH", "runs/reproduce-SCALE")] = None
    """Where method folders, tables and figures go."""
    tasks: Annotated[str | None, unset("STR", "those of the scale")] = None
    """Only these tasks, separated by commas, such as Hopper-v5."""
    methods: Annotated[str | None, unset("STR", "all")] = None
    """Only these methods, separated by commas, such as sac-uniform,sac-lfiw-power."""
    seeds: Annotated[str | None, unset("STR", "those of the scale")] = None
    """Exactly these seeds, separated by commas."""
    runs: Annotated[tuple[Path, ...], unset("FOLDER...")] = ()
    """Train nothing; analyse these finished method folders, or folders that hold some."""
    track: TrackWith = None
    trust_env: TrustEnv = False

    def run(self, console: Console) -> None:
        if self.list:
            console.print(experiments_table())
            return
        if self.name is None:
            raise InputError("Name an experiment, or all; `lfiw reproduce --list` shows them.")
        from lfiw.paper.reproduce import Reproduction, Selection

        selection = Selection(
            tasks=split_names(self.tasks, "--tasks"),
            methods=split_names(self.methods, "--methods"),
            seeds=parse_seeds(self.seeds) if self.seeds is not None else (),
        )
        if self.runs and selection != Selection():
            raise InputError(
                "--runs analyses all runs it names: leave out --tasks, --methods and --seeds."
            )
        reproduction = Reproduction(
            scale=self.scale,
            out=self.out or Path("runs") / f"reproduce-{self.scale}",
            workers=self.workers,
            devices=self.devices,
            cluster=self.cluster(),
            track=tracker_names(self.track),
            console=Console(stderr=True, quiet=self.quiet),
        )
        files = (
            reproduction.analyse_elsewhere(self.name, self.runs, self.trust_env)
            if self.runs
            else reproduction.run(self.name, selection)
        )
        for path in files:
            console.print(str(path), soft_wrap=True, highlight=False)


def experiments_table() -> Table:
    from lfiw.paper.cells import SCALES, config_of
    from lfiw.paper.experiments import EXPERIMENTS

    table = Table(title="lfiw reproduce NAME: runs and environment steps at scale paper")
    for heading in ("name", "experiment", "what it shows"):
        table.add_column(heading)
    for heading in ("runs", "steps"):
        table.add_column(heading, justify="right")
    for name, experiment in EXPERIMENTS.items():
        tasks = experiment.default_tasks("paper")
        cells = [cell for cell in experiment.cells if cell.task in tasks]
        configs = [config_of(cell, SCALES["paper"]) for cell in cells]
        runs = sum(len(config.seeds) for config in configs)
        steps = sum(len(config.seeds) * config.env_steps for config in configs)
        counts = (f"{runs}", f"{steps / 1e6:,.0f} M") if configs else ("-", "-")
        table.add_row(name, experiment.title, experiment.shows, *counts)
    return table
