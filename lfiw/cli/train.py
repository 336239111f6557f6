"""Commands that train runs, go on with them and check them: the options are the fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from lfiw.cli.options import (
    AGENT_NAMES,
    REPLAY_NAMES,
    Assignments,
    Command,
    Flag,
    Folders,
    OnCluster,
    OnMachine,
    StopAtReturn,
    TrackWith,
    TrustEnv,
    apply_settings,
    apply_sweeps,
    parse_env_steps,
    parse_seeds,
    split_names,
    unset,
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
    """Train agents: every combination of ENV, --agent and --replay, all seeds at once."""

    env: Annotated[str | None, tyro.conf.Positional, unset("ENV")] = None
    """Gymnasium ids or importable functions `module:function`, separated by commas."""
    agent: Annotated[str | None, unset("STR", "sac", AGENT_NAMES)] = None
    replay: Annotated[str | None, unset("STR", "lfiw", REPLAY_NAMES)] = None
    config: Annotated[Path | None, unset("FILE")] = None
    """Start from these settings: the config.json of a method folder, or JSON with its keys."""
    trust_env: TrustEnv = False
    num_seeds: Annotated[int | None, unset("INT", "1")] = None
    """Train this many seeds, counted from 0."""
    seeds: Annotated[str | None, unset("INT,...")] = None
    """Or: exactly these seeds, separated by commas."""
    env_steps: Annotated[str | None, unset("INT", "1000000")] = None
    """Environment steps of each run."""
    stop_at_return: StopAtReturn = None
    preset: Annotated[str | None, unset("STR", "default")] = None
    """default: good sample efficiency; paper: the paper's loop and numbers."""
    out: Path = Path("runs")
    """Where the method folders go: OUT/ENV/AGENT-REPLAY[-LABEL]."""
    label: Annotated[str, unset("STR")] = ""
    """Appended to the names of the method folders."""
    env_backend: Annotated[str | None, unset("STR", "gymnasium")] = None
    """What steps environments: gymnasium, or envpool for some MuJoCo tasks."""
    deterministic: Flag = False
    """On a GPU: the same command gives the same bits, as on a CPU; slower with many seeds."""
    track: TrackWith = None
    set: Assignments = ()
    """Further settings, such as replay.temperature=2.5; `lfiw settings` lists them all."""
    sweep: Assignments = ()
    """Train once for each value, such as replay.temperature=1,2.5,5; values label the folders."""

    def run(self, console: Console) -> None:
        configs, swept = apply_sweeps(
            self.configs(), self.sweep, self.preset or "default", self.set
        )
        cluster = self.cluster()
        labels = ["-".join(filter(None, (self.label, own))) for own in swept]
        where: dict[str, Any] = {"out": self.out, "label": labels, "workers": self.workers}
        where |= {"quiet": self.quiet, "track": self.track}
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
        """Every combination of tasks, agents and strategies, with what else was given."""
        from lfiw.settings import override

        configs = self.configs_by_name() if self.config is None else self.configs_by_file()
        given = {
            "seeds": self.parse_seeds(),
            "env_steps": self.env_steps,
            "stop_at_return": self.stop_at_return,
            "env.backend": self.env_backend,
            "deterministic": self.deterministic or None,
        }
        for name, value in given.items():
            if value is not None:
                configs = [override(config, name, value) for config in configs]
        return apply_settings(configs, self.set, self.preset or "default")

    def configs_by_name(self) -> list[TrainConfig]:
        from lfiw.learning.config import make_config

        if self.env is None:
            raise InputError("Name what to train on: ENV, or a file with settings (--config).")
        return [
            make_config(env, agent, replay, self.preset or "default")
            for env in split_names(self.env, "ENV")
            for agent in split_names(self.default("agent", "sac"), "--agent")
            for replay in split_names(self.default("replay", "lfiw"), "--replay")
        ]

    def default(self, name: str, default: str) -> str:
        given: str | None = getattr(self, name)
        return default if given is None else given

    def configs_by_file(self) -> list[TrainConfig]:
        """What the file says, with the tasks, agents and strategies that the command names."""
        from lfiw.learning.config import TrainConfig
        from lfiw.runs.trust import trusted_settings
        from lfiw.settings import from_json

        assert self.config is not None
        if self.preset is not None:
            raise InputError("--config has all settings already: leave out --preset.")
        found = trusted_settings(self.config, split_names(self.env, "ENV"), self.trust_env)
        try:
            return [
                with_part(with_part(from_json(TrainConfig, own), "agent", agent), "replay", replay)
                for own in found
                for agent in split_names(self.agent, "--agent") or (None,)
                for replay in split_names(self.replay, "--replay") or (None,)
            ]
        except InputError as error:
            raise InputError(f"{self.config}: {error}") from None

    def parse_seeds(self) -> tuple[int, ...] | None:
        if self.seeds is not None and self.num_seeds is not None:
            raise InputError("Give either --seeds or --num-seeds, not both.")
        if self.seeds is not None:
            return parse_seeds(self.seeds)
        if self.num_seeds is not None and self.num_seeds < 1:
            raise InputError(f"--num-seeds must be at least 1, not {self.num_seeds}.")
        return None if self.num_seeds is None else tuple(range(self.num_seeds))


def with_part(config: TrainConfig, part: str, name: str | None) -> TrainConfig:
    """Another agent or strategy in its defaults; one of the same name stays as it is."""
    from lfiw.settings import override

    if name is None or name == getattr(config, part).name:
        return config
    changed: TrainConfig = override(config, part, name)
    return changed


@dataclass
class Resume(OnMachine):
    """Go on with runs where they were stopped or killed, to the same bits on the same machine."""

    folders: Folders
    """Method folders, or folders that hold some."""
    env_steps: Annotated[str | None, unset("INT")] = None
    """Extend the runs to this many environment steps; schedules stay at their end values."""
    seeds: Annotated[str | None, unset("INT,...")] = None
    """Add these seeds to every run, separated by commas; those that it has just go on."""
    stop_at_return: StopAtReturn = None
    allow_inexact: Flag = False
    """Go on although versions, hardware or settings differ."""
    track: TrackWith = None
    trust_env: TrustEnv = False

    def run(self, console: Console) -> None:
        from lfiw.training.resume import resume_all

        if not self.folders:
            raise InputError("Name at least one method folder.")
        done = resume_all(
            self.folders,
            env_steps=parse_env_steps(self.env_steps),
            seeds=parse_seeds(self.seeds) if self.seeds is not None else (),
            stop_at_return=self.stop_at_return,
            allow_inexact=self.allow_inexact,
            trust_env=self.trust_env,
            workers=self.workers,
            devices=self.devices,
            quiet=self.quiet,
            track=self.track,
        )
        show_outcome(done, console)


@dataclass
class Verify(Command):
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
