"""Commands that train runs, go on with them and check them: the options are the fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from lfiw.cli.options import (
    AgentNames,
    Assignments,
    Folders,
    OnCluster,
    OnMachine,
    ReplayNames,
    apply_settings,
    apply_sweeps,
    parse_seeds,
    split_names,
)
from lfiw.errors import InputError, NothingYet, RunError
from lfiw.wording import one_line

if TYPE_CHECKING:
    from lfiw.learning.config import TrainConfig
    from lfiw.training.folder import Training


def show_outcome(trainings: Sequence[Training], console: Console) -> None:
    """The table of what was trained; methods without an evaluation say why."""
    from lfiw.results.curves import comparison_table, read_curves
    from lfiw.runs.read import read_rows

    shown, missing = [], []
    for training in trainings:
        try:
            shown.append(read_curves(training.folder))
        except NothingYet as error:
            failed = read_rows(training.folder, "failed eval")
            faults = [fault for row in failed for fault in row.get("faults", ())]
            missing.append(f"{error} {faults[-1]}" if faults else str(error))
    if shown:
        console.print(comparison_table(shown))
    if missing:
        raise RunError(" ".join(missing))


@dataclass
class Train(OnCluster):
    """Train agents: every combination of --agent and --replay, all seeds at once."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A Gymnasium id, or an importable factory `module:function`."""
    agent: AgentNames = "sac"
    replay: ReplayNames = "lfiw"
    num_seeds: int | None = None
    """Train this many seeds, counted from 0 (default: 1)."""
    seeds: str | None = None
    """Or: exactly these seeds, separated by commas."""
    env_steps: str | None = None
    """Environment steps of each run (default: 1000000)."""
    preset: str = "default"
    """default: good sample efficiency; paper: the paper's loop and numbers."""
    out: Path = Path("runs")
    """Where the method folders go: OUT/ENV/AGENT-REPLAY[-LABEL]."""
    label: str = ""
    """Appended to the names of the method folders."""
    env_backend: str = "gymnasium"
    """What steps environments: gymnasium, or envpool (install lfiw[envpool]) for some MuJoCo
    tasks."""
    deterministic: bool = False
    """On a GPU: the same command gives the same bits, as on a CPU; slower, the more so the more
    seeds."""
    set: Assignments = ()
    """Further settings, such as replay.temperature=2.5 or env.kwargs.NAME=VALUE; `lfiw
    settings` lists them all."""
    sweep: Assignments = ()
    """Train a method once for each value of a setting, such as replay.temperature=1,2.5,5; folders
    are labelled by the value. Several sweeps make every combination."""

    def run(self, console: Console) -> None:
        configs, swept = apply_sweeps(self.configs(), self.sweep, self.preset)
        cluster = self.cluster()
        labels = ["-".join(filter(None, (self.label, own))) for own in swept]
        where: dict[str, Any] = {"out": self.out, "label": labels, "workers": self.workers}
        if cluster is None:
            from lfiw.training import train_all

            trainings = train_all(configs, devices=self.devices, **where)
        else:
            from lfiw.cluster.supervisor import train_on_cluster

            trainings = train_on_cluster(configs, cluster, **where)
        try:
            show_outcome(trainings, console)
        finally:
            for training in trainings:
                console.print(str(training.folder), soft_wrap=True, highlight=False)

    def configs(self) -> list[TrainConfig]:
        from lfiw.learning.config import make_config

        general: dict[str, Any] = {
            "seeds": self.parse_seeds(),
            "env.backend": self.env_backend,
            "deterministic": self.deterministic,
        }
        if self.env_steps is not None:
            general["env_steps"] = self.env_steps
        configs = [
            make_config(self.env, agent, replay, self.preset, **general)
            for agent in split_names(self.agent, "--agent")
            for replay in split_names(self.replay, "--replay")
        ]
        return apply_settings(configs, self.set, self.preset)

    def parse_seeds(self) -> tuple[int, ...]:
        if self.seeds is not None and self.num_seeds is not None:
            raise InputError("Give either --seeds or --num-seeds, not both.")
        if self.seeds is None:
            count = 1 if self.num_seeds is None else self.num_seeds
            if count < 1:
                raise InputError(f"--num-seeds must be at least 1, not {count}.")
            return tuple(range(count))
        return parse_seeds(self.seeds)


@dataclass
class Resume(OnMachine):
    """Go on with runs where they were stopped or killed, to the same bits on the same machine."""

    folders: Folders
    """Method folders, or folders that hold some."""
    env_steps: str | None = None
    """Extend the runs to this many environment steps; schedules stay at their end values."""
    seeds: str | None = None
    """Add these seeds to every run, separated by commas; those that it has just go on."""
    allow_inexact: bool = False
    """Go on although versions, hardware or settings differ."""

    def run(self, console: Console) -> None:
        from lfiw.settings import parse
        from lfiw.training.resume import resume_all

        if not self.folders:
            raise InputError("Name at least one method folder.")
        done = resume_all(
            self.folders,
            env_steps=None if self.env_steps is None else parse("--env-steps", self.env_steps, int),
            seeds=parse_seeds(self.seeds) if self.seeds is not None else (),
            allow_inexact=self.allow_inexact,
            workers=self.workers,
            devices=self.devices,
        )
        show_outcome(done, console)


@dataclass
class Verify:
    """Check every file of runs against its hash, and say from where a resume would go on."""

    folders: Folders
    """Method folders, or folders that hold some."""

    def run(self, console: Console) -> None:
        from lfiw.runs.layout import find_folders, parts_of
        from lfiw.runs.verify import verify_run

        if not self.folders:
            raise InputError("Name at least one method folder.")
        damaged = 0
        for folder in [part for found in find_folders(self.folders) for part in parts_of(found)]:
            problems, outcome = verify_run(folder)
            damaged += len(problems)
            for line in (*problems, outcome):
                console.print(one_line(line), soft_wrap=True, highlight=False, markup=False)
        if damaged:
            raise RunError(f"{damaged} damaged file{'s' if damaged > 1 else ''} found.")
