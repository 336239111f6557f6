"""The command line. Each command is a dataclass; its fields are the options."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from lfiw import __version__
from lfiw.errors import InputError, nearest, one_line
from lfiw.paper.cli import Reproduce

if TYPE_CHECKING:
    from lfiw.config import TrainConfig

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
PLAIN_WIDTH = 160
RAY_ADDRESS = re.compile(r"auto|local|(ray://)?[^\s/=]+:\d+")


@dataclass
class Train:
    """Train agents: every combination of --agent and --replay, all seeds at once."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A Gymnasium id, or an importable factory `module:function`."""
    agent: str = "sac"
    """Agents, separated by commas: sac, td3."""
    replay: str = "lfiw"
    """Replay strategies, separated by commas: uniform, per, ere, lfiw."""
    num_seeds: int | None = None
    """Train this many seeds, counted from 0 (default: 1)."""
    seeds: str | None = None
    """Or: exactly these seeds, separated by commas."""
    env_steps: str | None = None
    """Environment steps of each run (default: 1000000)."""
    preset: str = "default"
    """default: good sample efficiency; paper: the paper's loop and numbers."""
    out: Path = Path("runs")
    """Where the run folders go: OUT/ENV/AGENT-REPLAY[-LABEL]."""
    label: str = ""
    """Appended to the names of the run folders."""
    workers: int | None = None
    """Processes that step environments, for each method; 0: in this process (default: one
    per core)."""
    devices: str | None = None
    """Devices that train: cpu, gpu, cpu:2 (the first two) or gpu:0,2 (default: all)."""
    env_backend: str = "gymnasium"
    """What steps environments: gymnasium, or envpool (install lfiw[envpool]) for some MuJoCo
    tasks."""
    ray: Annotated[str | None, tyro.conf.arg(metavar="[ADDRESS]")] = None
    """Train on a Ray cluster (auto, HOST:PORT or ray://HOST:PORT), or on one that is started
    here; each method is a task. The same command goes on with what was begun."""
    gpus_per_group: float | None = None
    """With --ray: GPUs of each method (default: 0.5 where there are any, else 0)."""
    cpus_per_group: int | None = None
    """With --ray: CPUs of each method (default: one for each seed, as far as a node has them)."""
    deterministic: bool = False
    """On a GPU: the same command gives the same bits, somewhat slower (a CPU always does)."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Further settings, such as replay.temperature=2.5 or env.kwargs.NAME=VALUE; `lfiw
    settings` lists them all."""

    def run(self, console: Console) -> None:
        configs = self.configs()
        from lfiw.cluster import cluster_config
        from lfiw.curves import comparison_table, read_curves

        cluster = cluster_config(self.ray, self.gpus_per_group, self.cpus_per_group, self.devices)
        where: dict[str, Any] = {"out": self.out, "label": self.label, "workers": self.workers}
        if cluster is None:
            from lfiw.training import train_all

            runs = train_all(configs, devices=self.devices, **where)
        else:
            from lfiw.sweep import train_sweep

            runs = train_sweep(configs, cluster, **where)
        console.print(comparison_table([read_curves(run.folder) for run in runs]))
        for run in runs:
            console.print(str(run.folder), soft_wrap=True, highlight=False)

    def configs(self) -> list[TrainConfig]:
        from lfiw.config import make_config

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
        for assignment in self.set:
            key, equals, value = assignment.partition("=")
            if not equals:
                raise InputError(f"--set takes KEY=VALUE, not {assignment!r}.")
            configs = set_where_known(configs, key.strip(), value.strip())
        return configs

    def parse_seeds(self) -> tuple[int, ...]:
        if self.seeds is not None and self.num_seeds is not None:
            raise InputError("Give either --seeds or --num-seeds, not both.")
        if self.seeds is None:
            count = 1 if self.num_seeds is None else self.num_seeds
            if count < 1:
                raise InputError(f"--num-seeds must be at least 1, not {count}.")
            return tuple(range(count))
        return parse_seeds(self.seeds)


def parse_seeds(text: str) -> tuple[int, ...]:
    from lfiw.settings import parse

    seeds: tuple[int, ...] = parse("--seeds", text, tuple[int, ...])
    return seeds


def split_names(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} needs at least one name.")
    if len(set(names)) != len(names):
        raise InputError(f"{option} names {text!r} contain one twice.")
    return names


def set_where_known(configs: list[TrainConfig], key: str, value: str) -> list[TrainConfig]:
    """Apply a setting to every method that has it; at least one must."""
    from lfiw.errors import nearest
    from lfiw.settings import override, walk

    def known(config: TrainConfig) -> bool:
        return key.startswith("env.kwargs.") or key in {name for name, _, _ in walk(config)}

    if not any(map(known, configs)):
        names = {name for config in configs for name, _, _ in walk(config)}
        raise InputError(f"Unknown setting {key!r}.{nearest(key, names)}")
    return [override(config, key, value) if known(config) else config for config in configs]


@dataclass
class Resume:
    """Go on with runs where they were stopped or killed, to the same bits on the same machine."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    """Run folders, or folders that hold some."""
    env_steps: int | None = None
    """Extend the runs to this many environment steps; schedules stay at their end values."""
    seeds: str | None = None
    """Add these seeds to every run, separated by commas; those that it has just go on."""
    allow_inexact: bool = False
    """Go on although versions, hardware or settings differ."""
    workers: int | None = None
    """As for train."""
    devices: str | None = None
    """As for train."""

    def run(self, console: Console) -> None:
        from lfiw.curves import comparison_table, read_curves
        from lfiw.resume import resume

        if not self.runs:
            raise InputError("Name at least one run folder.")
        done = resume(
            self.runs,
            env_steps=self.env_steps,
            seeds=parse_seeds(self.seeds or ""),
            allow_inexact=self.allow_inexact,
            workers=self.workers,
            devices=self.devices,
        )
        console.print(comparison_table([read_curves(run.folder) for run in done]))


@dataclass
class Verify:
    """Check every file of runs against its hash, and say from where a resume would go on."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    """Run folders, or folders that hold some."""

    def run(self, console: Console) -> None:
        from lfiw.errors import RunError
        from lfiw.policy import parts_of
        from lfiw.runlog import find_runs
        from lfiw.verify import verify_run

        if not self.runs:
            raise InputError("Name at least one run folder.")
        damaged = 0
        for folder in [part for run in find_runs(self.runs) for part in parts_of(run)]:
            problems, outcome = verify_run(folder)
            damaged += len(problems)
            for line in (*problems, outcome):
                console.print(one_line(line), soft_wrap=True, highlight=False, markup=False)
        if damaged:
            raise RunError(f"{damaged} damaged file{'s' if damaged > 1 else ''} found.")


@dataclass
class Settings:
    """List every setting of a method, with its value and its valid range."""

    agent: str = "sac"
    """The agent: sac or td3."""
    replay: str = "lfiw"
    """The replay strategy: uniform, per, ere or lfiw."""
    preset: str = "default"
    """default or paper."""

    def run(self, console: Console) -> None:
        from lfiw.config import make_config
        from lfiw.settings import range_text, walk

        config = make_config("ENV", self.agent, self.replay, self.preset)
        table = Table(title=f"{config.method}, preset {self.preset}: --set NAME=VALUE")
        for heading in ("name", "value", "valid"):
            table.add_column(heading)
        for name, entry, value in walk(config):
            shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            table.add_row(name, shown, range_text(type_owner(config, name), entry))
        console.print(table)


def type_owner(config: Any, name: str) -> type[Any]:
    """The config class that declares a dotted setting."""
    *path, _ = name.split(".")
    for part in path:
        config = getattr(config, part)
    return type(config)


@dataclass
class Evaluate:
    """Run deterministic episodes with the trained policies of a run folder."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder."""
    episodes: int = 10
    """Episodes for each policy."""
    seed: int | None = None
    """The policy of this training seed only (default: all)."""
    episode_seed: int = 0
    """Episode k is reset with the seed EPISODE_SEED + k."""
    json: bool = False
    """Print JSON."""

    def run(self, console: Console) -> None:
        from lfiw.evaluate import evaluate_run

        rows = evaluate_run(self.run_folder, self.episodes, self.seed, self.episode_seed)
        if self.json:
            print(json.dumps(rows, indent=2))
            return
        table = Table(title=str(self.run_folder), title_justify="left")
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
class Plot:
    """Draw learning curves: mean over seeds, shaded standard deviation, a line per method."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    """Run folders, or folders that hold some."""
    out: Path = Path("curves.png")
    """The picture: .png, .pdf or .svg."""

    def run(self, console: Console) -> None:
        from lfiw.curves import comparison_table, read_curves
        from lfiw.plot import check_picture, plot_curves
        from lfiw.runlog import find_runs

        if not self.runs:
            raise InputError("Name at least one run folder.")
        check_picture(self.out)
        curves = [read_curves(run) for run in find_runs(self.runs)]
        picture = plot_curves(curves, self.out)
        console.print(comparison_table(curves))
        console.print(str(picture), soft_wrap=True, highlight=False)


@dataclass
class Report:
    """Write a report: a page with interactive curves and tables, and all of it as files."""

    sources: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR...")]
    """Run folders, stored results, or folders that hold some."""
    out: Path = Path("report")
    """The folder for index.html, which opens from disk, and figures and tables beside it."""

    def run(self, console: Console) -> None:
        from lfiw.report import write_report

        for path in write_report(self.sources, self.out):
            console.print(str(path), soft_wrap=True, highlight=False)


@dataclass
class Record:
    """Record one deterministic episode as a video, without a screen."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder."""
    seed: int = 0
    """The training seed whose policy acts."""
    episode_seed: int = 0
    """The seed of the episode's reset."""
    out: Path = Path("episode.mp4")
    """The video: .mp4 or .gif."""

    def run(self, console: Console) -> None:
        from lfiw.evaluate import record_run

        path, total_reward, length = record_run(
            self.run_folder, self.out, self.seed, self.episode_seed
        )
        console.print(f"{path}: return {total_reward:,.1f} in {length} steps", soft_wrap=True)


@dataclass
class Demo:
    """The paper's chain MDP, then SAC with uniform and with LFIW replay on a small task."""

    out: Path | None = None
    """Where everything goes (default: a new folder below runs/)."""

    def run(self, console: Console) -> None:
        from datetime import datetime

        from lfiw.demo import run_demo

        run_demo(self.out or Path("runs") / f"demo-{datetime.now():%Y%m%d-%H%M%S}", console)


@dataclass
class Bench:
    """Measure speed: `lfiw bench --help` lists the benchmarks."""

    def run(self, console: Console) -> None:
        raise InputError("Name a benchmark: `lfiw bench --help` lists them.")


@dataclass
class Results:
    """Keep finished runs as results: `lfiw results --help` lists what can be done."""

    def run(self, console: Console) -> None:
        raise InputError("Say what to do: `lfiw results --help` lists it.")


COMMANDS: dict[str, Callable[..., Any]] = {
    "train": Train,
    "resume": Resume,
    "verify": Verify,
    "evaluate": Evaluate,
    "plot": Plot,
    "report": Report,
    "record": Record,
    "settings": Settings,
    "reproduce": Reproduce,
    "results": Results,
    "bench": Bench,
    "demo": Demo,
}


def repeat_set_option(arguments: Sequence[str]) -> list[str]:
    """`--set a=1 b=2` as `--set a=1 --set b=2`: both forms are natural."""
    repeated: list[str] = []
    in_set = False
    for argument in arguments:
        if argument.startswith("-"):
            in_set = argument == "--set"
        elif in_set and repeated[-1] != "--set":
            repeated.append("--set")
        repeated.append(argument)
    return repeated


def complete_ray_option(arguments: Sequence[str]) -> list[str]:
    """`--ray` alone as `--ray local`; what follows is an address if it looks like one."""
    completed: list[str] = []
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):
        completed.append(argument)
        if argument == "--ray" and not RAY_ADDRESS.fullmatch(following):
            completed.append("local")
    return completed


def main(arguments: Sequence[str] | None = None) -> None:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"lfiw {__version__}")
        return
    try:
        command = parse_command(given)
    except InputError as error:
        sys.exit(explain(error))
    sys.exit(run_command(command))


def explain(error: InputError) -> int:
    print(f"lfiw: {one_line(str(error))}", file=sys.stderr)
    return BAD_INPUT


def parse_command(given: Sequence[str]) -> Any:
    """The command that the arguments describe; tyro explains wrong options and exits with 2."""
    commands, prog = COMMANDS, "lfiw"
    if given[:1] == ["bench"] and len(given) > 1:
        from lfiw.bench.cli import BENCHMARKS

        commands, prog, given = BENCHMARKS, "lfiw bench", given[1:]
    elif given[:1] == ["results"] and len(given) > 1:
        from lfiw.results_page import COMMANDS as ON_RESULTS

        commands, prog, given = ON_RESULTS, "lfiw results", given[1:]
    if given and not given[0].startswith("-") and given[0] not in commands:
        raise InputError(f"{prog} has no command {given[0]!r}.{nearest(given[0], list(commands))}")
    return tyro.extras.subcommand_cli_from_dict(
        commands,
        prog=prog,
        description="Off-policy reinforcement learning with likelihood-free importance weights.",
        args=complete_ray_option(repeat_set_option(given)),
    )


def run_command(command: Any) -> int:
    """The exit code; an expected failure is one sentence, never a traceback."""
    from lfiw.errors import RunError

    # Where training has not begun, or has ended: as Ctrl-C. Training itself saves first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # Files and pipes have no width of their own: no table is cut short there.
        command.run(Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH))
    except InputError as error:
        return explain(error)
    except RunError as error:
        print(f"lfiw: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("lfiw: stopped.", file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    main()
