"""Commands that show settings and what was trained: the options are the fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import Field, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table

from lfiw.cli.options import (
    AgentName,
    Command,
    Flag,
    Folder,
    Folders,
    ReplayName,
    TrustEnv,
    parse_env_steps,
    split_names,
    unset,
)
from lfiw.errors import InputError

WIDE = 110  # columns, from which on a table has room for sentences


@dataclass
class Settings(Command):
    """List every setting of a method: its value, its valid range and what it means."""

    agent: AgentName = "sac"
    replay: ReplayName = "lfiw"
    preset: str = "default"
    """default or paper."""

    def run(self, console: Console) -> None:
        from lfiw.learning.config import make_config
        from lfiw.settings import parts, range_text, walk

        config = make_config("ENV", self.agent, self.replay, self.preset)
        rows = [
            (name, kind, " | ".join(kinds), meaning)
            for name, kind, kinds, meaning in parts(config.replay, "replay.")
        ]
        rows += [
            (name, shown(value), range_text(type_owner(config, name), entry), meaning_of(entry))
            for name, entry, value in walk(config)
        ]
        title = f"{config.method}, preset {self.preset}: --set NAME=VALUE"
        console.print(settings_table(title, rows, console.width))


def shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def meaning_of(entry: Field[Any]) -> str:
    meaning: str = entry.metadata["meaning"]
    return meaning


def settings_table(title: str, rows: Sequence[tuple[str, str, str, str]], width: int) -> Table:
    """Where there is no room for a column of its own, what a setting means is below its name, all
    of its lines indented."""
    wide = width >= WIDE
    headings = ("name", "value", "valid", "meaning") if wide else ("name", "value", "valid")
    table = Table(*headings, title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.columns[0].no_wrap = wide
    table.columns[2].max_width = 20
    for name, value, valid, meaning in rows:
        if wide:
            table.add_row(name, value, valid, meaning)
        else:
            table.add_row(Group(name, Padding(meaning, (0, 0, 0, 2))), value, valid)
    return table


def type_owner(config: Any, name: str) -> type[Any]:
    """The config class that declares a dotted setting."""
    *path, _ = name.split(".")
    for part in path:
        config = getattr(config, part)
    return type(config)


@dataclass
class Evaluate(Command):
    """Run deterministic episodes with the trained policies of a method folder."""

    folder: Folder
    """A method folder."""
    episodes: int = 10
    """Episodes for each policy."""
    seed: Annotated[int | None, unset("INT", "all")] = None
    """The policy of this training seed only."""
    episode_seed: int = 0
    """Episode k is reset with the seed EPISODE_SEED + k."""
    which: Literal["latest", "best"] = "latest"
    """The latest policy of a seed, or the one with its best evaluation in training."""
    json: Flag = False
    """Print JSON."""
    trust_env: TrustEnv = False

    def run(self, console: Console) -> None:
        from lfiw.runs.evaluate import evaluate

        rows = evaluate(
            self.folder,
            self.episodes,
            self.seed,
            self.episode_seed,
            self.which,
            self.trust_env,
        )
        if self.json:
            print(json.dumps(rows, indent=2))
            return
        table = Table(title=str(self.folder), title_justify="left")
        for heading in ("seed", "return", "length", "episodes"):
            table.add_column(heading, justify="right")
        for row in rows:
            table.add_row(
                str(row["seed"]),
                f"{row['return_mean']:,.1f} ± {row['return_std']:,.1f}",
                f"{row['length_mean']:,.0f}",
                str(row["episodes"]),
            )
        console.print(table)


@dataclass
class Plot(Command):
    """Draw learning curves: mean over seeds, shaded standard deviation, a line per method."""

    folders: Folders
    """Method folders, stored results, or folders that hold some; or logs of Stable-Baselines3,
    rl-zoo, SBX, CleanRL and CSV tables, whose method METHOD=FOLDER names."""
    out: Path = Path("curves.png")
    """The picture: .png, .pdf or .svg."""
    smooth: int = 1
    """Draw running means over this odd number of evaluations."""
    methods: Annotated[str | None, unset("STR", "all")] = None
    """Only these methods, separated by commas, such as sac-uniform,sac-lfiw-power."""
    env_steps: Annotated[str | None, unset("INT", "all of them")] = None
    """Only the first so many environment steps of each run."""
    task: Annotated[str | None, unset("STR", "by the log or its folders")] = None
    """The task of other libraries' logs."""

    def run(self, console: Console) -> None:
        from lfiw.results.curves import comparison_table
        from lfiw.results.methods import read_methods
        from lfiw.results.plot import check_picture, plot_curves

        if not self.folders:
            raise InputError("Name at least one method folder.")
        check_picture(self.out)
        names = split_names(self.methods, "--methods")
        methods = read_methods(
            self.folders, names, self.note, parse_env_steps(self.env_steps), self.task or ""
        )
        curves = [method.curves for method in methods]
        picture = plot_curves(curves, self.out, self.smooth)
        console.print(comparison_table(curves))
        console.print(str(picture), soft_wrap=True, highlight=False)


@dataclass
class Report(Command):
    """Write a report: a page with interactive curves and tables, and all of it as files."""

    folders: Folders
    """Method folders, stored results, or folders that hold some; or logs of Stable-Baselines3,
    rl-zoo, SBX, CleanRL and CSV tables, whose method METHOD=FOLDER names."""
    out: Path = Path("report")
    """The folder for index.html, which opens from disk, and figures and tables beside it."""
    methods: Annotated[str | None, unset("STR", "all")] = None
    """Only these methods, separated by commas, such as sac-uniform,sac-lfiw-power."""
    env_steps: Annotated[str | None, unset("INT", "all of them")] = None
    """Only the first so many environment steps of each run."""
    task: Annotated[str | None, unset("STR", "by the log or its folders")] = None
    """The task of other libraries' logs."""
    baseline: Annotated[str | None, unset("STR", "uniform replay, or the first of other logs")] = (
        None
    )
    """The method that all others are compared with."""

    def run(self, console: Console) -> None:
        from lfiw.report import write_report

        names = split_names(self.methods, "--methods")
        for path in write_report(
            *(self.folders, self.out, names, self.note, parse_env_steps(self.env_steps)),
            task=self.task or "",
            baseline=self.baseline or "",
        ):
            console.print(str(path), soft_wrap=True, highlight=False)


@dataclass
class Record(Command):
    """Record one deterministic episode as a video, without a screen."""

    folder: Folder
    """A method folder."""
    seed: int = 0
    """The training seed whose policy acts."""
    episode_seed: int = 0
    """The seed of the episode's reset."""
    which: Literal["latest", "best"] = "latest"
    """As for evaluate."""
    out: Path = Path("episode.mp4")
    """The video: .mp4 or .gif."""
    trust_env: TrustEnv = False

    def run(self, console: Console) -> None:
        from lfiw.runs.record import record

        path, total_reward, length = record(
            self.folder, self.out, self.seed, self.episode_seed, self.which, self.trust_env
        )
        console.print(f"{path}: return {total_reward:,.1f} in {length} steps", soft_wrap=True)
