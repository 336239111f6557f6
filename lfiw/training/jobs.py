"""What is to be trained, and which of it goes in lock-step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jax
import numpy as np

from lfiw.acting.policy import ActionScale
from lfiw.learning.config import TrainConfig
from lfiw.learning.scalars import program_key
from lfiw.replay.uniform import UniformConfig
from lfiw.runs.checkpoint import Checkpoint
from lfiw.training.progress import Progress
from lfiw.types import EnvSpec


@dataclass(frozen=True)
class Job:
    """One method to train, from its start or from a checkpoint."""

    config: TrainConfig
    folder: Path
    checkpoint: Checkpoint | None = None
    resumed: bool = False
    allow_inexact: bool = False
    # The entry of config.json by which its user is known; none: of who begins it, or as it is.
    signature: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entrant:
    """A job that can start: what its environment is like, and where its progress is shown."""

    job: Job
    spec: EnvSpec
    scale: ActionScale
    progress: Progress

    @property
    def config(self) -> TrainConfig:
        return self.job.config

    @property
    def folder(self) -> Path:
        return self.job.folder

    @property
    def bounds(self) -> dict[str, np.ndarray]:
        """Of actions, as policies and snapshots store them."""
        return {"action_low": self.scale.low, "action_high": self.scale.high}


def make_teams(jobs: Sequence[Job], devices: Sequence[jax.Device]) -> list[list[Job]]:
    """A fixed rule. On the CPU every method is a team of its own. On a GPU methods of one agent
    that go in lock-step are a team, split further until every device has two, so that one team
    can learn while another collects."""
    if devices[0].platform == "cpu":
        return [[job] for job in jobs]
    by_key: dict[str, list[Job]] = {}
    for job in jobs:
        by_key.setdefault(lockstep_key(job), []).append(job)
    teams = list(by_key.values())
    while len(teams) < 2 * len(devices) and (largest := max(teams, key=len))[1:]:
        teams.remove(largest)
        teams += [largest[0::2], largest[1::2]]
    return teams


def lockstep_key(job: Job) -> str:
    """Equal for jobs that can share one loop: they may differ in replay, seeds and scalars. Their
    folders stand side by side, where `team_of` looks for them."""
    shared = dataclasses.replace(program_key(job.config), replay=UniformConfig())
    facts = job.checkpoint.facts if job.checkpoint else {}
    return f"{job.folder.parent} {shared} {facts.get('env_steps', 0)} {facts.get('updates', 0)}"
