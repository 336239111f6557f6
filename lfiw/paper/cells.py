"""What an experiment is made of: methods on tasks, and the scale at which they are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lfiw.learning.config import TrainConfig, make_config
from lfiw.results.catalogue import TASKS
from lfiw.runs.layout import method_folder
from lfiw.settings import override, walk
from lfiw.training.folder import Training

# On every task: a maximum over more of them would be higher.
EVALUATIONS = 100

# Settings that shrink with the length of a run, and those that shrink with its networks.
COUNTED_IN_ENV_STEPS = {
    "env_steps",
    "buffer_size",
    "random_env_steps",
    "learning_starts",
    "eval_every_env_steps",
    "replay.fast_size",
    "replay.warmup_env_steps",
    "replay.min_window",
}
COUNTED_IN_UNITS = {"agent.hidden_sizes", "replay.hidden_sizes"}


@dataclass(frozen=True)
class Cell:
    """One method on one task; all its seeds are one method folder."""

    task: str
    agent: str
    replay: str
    label: str = ""  # what sets it apart from the plain method
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        return "-".join(filter(None, (self.agent, self.replay, self.label)))


@dataclass(frozen=True)
class Scale:
    num_seeds: int
    steps: float  # share of what is counted in environment steps
    units: float  # share of the networks' hidden units
    settings: Mapping[str, Any]  # what does not follow from these shares


SCALES = {
    "smoke": Scale(
        num_seeds=2,
        steps=1 / 500,
        units=1 / 8,
        settings={
            "env_steps": 2000,
            "batch_size": 32,
            "phase_env_steps": 100,
            "random_env_steps": 200,
            "learning_starts": 200,
            "eval_every_env_steps": 200,
            "eval_episodes": 1,
        },
    ),
    "small": Scale(
        num_seeds=3,
        steps=1 / 10,
        units=1,
        settings={"random_env_steps": 1000, "learning_starts": 1000, "eval_every_env_steps": 2000},
    ),
    # The paper's phases of 1000 steps; fewer and longer calls keep a GPU busy.
    "paper": Scale(
        num_seeds=5, steps=1, units=1, settings={"phase_env_steps": 1000, "updates_per_call": 200}
    ),
}


def config_of(cell: Cell, scale: Scale) -> TrainConfig:
    lengths = {
        "env_steps": TASKS[cell.task],
        "eval_every_env_steps": TASKS[cell.task] // EVALUATIONS,
    }
    config = make_config(
        cell.task,
        cell.agent,
        cell.replay,
        seeds=range(scale.num_seeds),
        **(lengths | dict(cell.settings)),
    )
    for name, _, value in walk(config):
        if name in COUNTED_IN_ENV_STEPS:
            config = override(config, name, max(1, round(value * scale.steps)))
        elif name in COUNTED_IN_UNITS and value is not None:
            sizes = tuple(max(1, round(size * scale.units)) for size in value)
            config = override(config, name, sizes)
    for name, value in scale.settings.items():
        config = override(config, name, value)
    return config


def training_of(cell: Cell, config: TrainConfig, out: Path) -> Training:
    """Where the cell's runs are, or will be: experiments with the same cell share them."""
    return Training(
        method_folder(out, cell.task, f"{cell.agent}-{cell.replay}", cell.label), config
    )


@dataclass(frozen=True)
class Study:
    """What an analysis is given: finished runs, and where its files go."""

    name: str
    scale: str
    out: Path
    trainings: Sequence[Training]
    note: Callable[[str], None] = lambda sentence: None  # told what may mislead


@dataclass(frozen=True)
class Experiment:
    title: str
    shows: str
    analyse: Callable[[Study], list[Path]]
    cells: tuple[Cell, ...] = ()
    tasks: tuple[str, ...] = tuple(TASKS)  # those of the paper; others are run when asked for
    smoke_tasks: tuple[str, ...] = tuple(TASKS)  # those that do not take too long there
    root: str = ""  # of its runs, below that of all: where they differ from runs of the same name

    def default_tasks(self, scale: str) -> set[str]:
        return set(self.tasks) & set(self.smoke_tasks if scale == "smoke" else self.tasks)
