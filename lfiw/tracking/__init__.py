"""Runs in experiment trackers: which there are, and what they are told of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lfiw.errors import InputError
from lfiw.extras import install_command, is_installed
from lfiw.wording import nearest, option_name

# The extra of a tracker has its name, and so has its library.
TRACKERS = {
    "wandb": "lfiw.tracking.wandb:WandbRun",
    "trackio": "lfiw.tracking.trackio:TrackioRun",
    "mlflow": "lfiw.tracking.mlflow:MlflowRun",
}
PROJECT = "lfiw"  # where the user names none as the tracker's own documentation says


@dataclass(frozen=True)
class About:
    """One run, as a tracker introduces it."""

    name: str  # TASK/METHOD/seed-N
    group: str  # TASK/METHOD
    config: Mapping[str, Any]  # all settings, and the circumstances of the run
    tags: Mapping[str, str]


class Point(NamedTuple):
    """The numbers of a row of the log, by tag."""

    env_steps: int
    seconds: float  # when it was logged, since the epoch
    numbers: Mapping[str, float]


class Tracked(Protocol):
    """A run in a tracker; made from an `About`, and from its id where it goes on with a run."""

    id: str

    def log(self, points: Sequence[Point]) -> None: ...

    def tell(self, title: str, sentence: str, env_steps: int) -> None:
        """Something that a user should see, such as a warning."""

    def show(self, video: Path, env_steps: int) -> None: ...

    def close(self, summary: Mapping[str, float], state: str, env_steps: int) -> None:
        """`state` is finished, ended (on purpose), stopped (sick) or unfinished."""


Trackers = str | Sequence[str] | None  # names, separated by commas where they are one text
OpenRun = Callable[[About, str | None], Tracked]


def tracker(name: str) -> OpenRun:
    module, _, kind = TRACKERS[name].partition(":")
    found: OpenRun = getattr(import_module(module), kind)
    return found


def tracker_names(given: Trackers, option: str = "track") -> tuple[str, ...]:
    """Of names separated by commas, or of a sequence of them; a sentence where one is not there."""
    names = given.split(",") if isinstance(given, str) else given or ()
    names = tuple(dict.fromkeys(str(name).strip() for name in names))
    for name in names:
        if name not in TRACKERS:
            hint = nearest(name, TRACKERS)
            raise InputError(f"{option_name(option)} knows no tracker {name!r}.{hint}")
        if not is_installed(name):
            raise InputError(
                f"{option_name(option)} {name} needs the library {name}: {install_command(name)}"
            )
    return names
