"""The command line: which commands there are, and what becomes of their failures."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tyro
from rich.console import Console

from lfiw import __version__
from lfiw.cli.bench import BenchCollect, BenchLearner, BenchPeers, BenchProfile, BenchTrain
from lfiw.cli.demo import Demo
from lfiw.cli.export import Export
from lfiw.cli.inspect import Evaluate, Plot, Record, Report, Settings
from lfiw.cli.reproduce import Reproduce
from lfiw.cli.results import ResultsAdd, ResultsShow
from lfiw.cli.track import Track
from lfiw.cli.train import Resume, Train, Verify
from lfiw.cli.tune import Tune
from lfiw.cli.wrong_options import HELP, refuse_wrong_options
from lfiw.errors import InputError, RunError
from lfiw.extras import install_command
from lfiw.wording import nearest, on_command_line, one_line

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
PLAIN_WIDTH = 160
RAY_ADDRESS = re.compile(r"auto|local|(ray://)?[^\s/=]+:\d+")


class CommandGroup(NamedTuple):
    """Commands behind a common word."""

    help: str
    commands: dict[str, type[Any]]


COMMANDS: dict[str, type[Any] | CommandGroup] = {
    "train": Train,
    "resume": Resume,
    "tune": Tune,
    "verify": Verify,
    "evaluate": Evaluate,
    "plot": Plot,
    "report": Report,
    "record": Record,
    "export": Export,
    "track": Track,
    "settings": Settings,
    "reproduce": Reproduce,
    "results": CommandGroup(
        "Keep finished runs as results: `lfiw results --help` lists what can be done.",
        {"add": ResultsAdd, "show": ResultsShow},
    ),
    "bench": CommandGroup(
        "Measure speed: `lfiw bench --help` lists the benchmarks.",
        {
            "learner": BenchLearner,
            "profile": BenchProfile,
            "collect": BenchCollect,
            "train": BenchTrain,
            "peers": BenchPeers,
        },
    ),
    "demo": Demo,
}


def repeat_options(arguments: Sequence[str]) -> list[str]:
    """`--set a=1 b=2` as `--set a=1 --set b=2`: both forms are natural."""
    repeated: list[str] = []
    option = ""
    for argument in arguments:
        if argument.startswith("-"):
            option = argument if argument in ("--set", "--sweep", "--search") else ""
        elif option and repeated[-1] != option:
            repeated.append(option)
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
    with on_command_line():
        try:
            command = parse_command(given)
        except InputError as error:
            sys.exit(explain(error))
        sys.exit(run_command(command))


def explain(error: InputError | RunError, debug: bool = False) -> int:
    if debug:
        traceback.print_exception(error)
    print(f"lfiw: {one_line(str(error))}", file=sys.stderr)
    return BAD_INPUT if isinstance(error, InputError) else FAILED


def parse_command(given: Sequence[str]) -> Any:
    """The command that the arguments describe."""
    commands: Mapping[str, type[Any] | CommandGroup] = COMMANDS
    prog = "lfiw"
    if given and isinstance(group := COMMANDS.get(given[0]), CommandGroup):
        commands, prog, given = group.commands, f"lfiw {given[0]}", given[1:]
    if not given:
        raise InputError(f"Say which: `{prog} --help` lists {', '.join(commands)}.")
    given = complete_ray_option(repeat_options(given))
    command = commands.get(given[0])
    if isinstance(command, type):
        refuse_wrong_options(f"{prog} {given[0]}", command, given[1:])
    elif given[0].startswith("-") and given[0] not in HELP and "--tyro-" not in given[0]:
        raise InputError(f"{prog} needs a command before {given[0]!r}: `{prog} --help` lists them.")
    elif not given[0].startswith("-"):
        raise InputError(f"{prog} has no command {given[0]!r}.{nearest(given[0], list(commands))}")
    return tyro.extras.subcommand_cli_from_dict(
        {
            name: _described(command.help) if isinstance(command, CommandGroup) else command
            for name, command in commands.items()
        },
        prog=prog,
        description="Off-policy reinforcement learning with likelihood-free importance weights.",
        args=given,
    )


def _described(text: str) -> Callable[[], None]:
    """A command for the help alone."""

    def command() -> None: ...

    command.__doc__ = text
    return command


def run_command(command: Any) -> int:
    """The exit code; an expected failure is one sentence, never a traceback."""
    try:
        # Files and pipes have no width of their own: no table is cut short there. Names of
        # folders and environments are shown as they are, brackets too.
        width = None if sys.stdout.isatty() else PLAIN_WIDTH
        command.run(Console(width=width, markup=False))
    except (InputError, RunError) as error:
        return explain(error, command.debug)
    except ModuleNotFoundError as error:
        if (error.name or "lfiw").partition(".")[0] == "lfiw":
            raise
        missing = InputError(f"{error.name} is not installed: {install_command()}")
        missing.__cause__ = error
        return explain(missing, command.debug)
    except BrokenPipeError:  # who read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        name = error.filename or "The output"
        unusable = InputError(f"{name} cannot be read or written: {error.strerror}.")
        unusable.__cause__ = error
        return explain(unusable, command.debug)
    except KeyboardInterrupt as error:
        print(f"lfiw: {'; '.join(['stopped', *map(str, error.args)])}.", file=sys.stderr)
        return INTERRUPTED
    return 0
