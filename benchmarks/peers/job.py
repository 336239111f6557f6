"""The job that every library is given, and how its progress comes back."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Mark = tuple[int, float]  # environment steps of a run, and `time.perf_counter` after them


@dataclass(frozen=True)
class PeerJob:
    """One update per environment step; the first `learning_starts` actions are random."""

    library: str  # the module that trains
    env: str
    agent: str
    env_steps: int
    seeds: Sequence[int] = (0,)
    hidden_sizes: Sequence[int] = (256, 256)
    batch_size: int = 256
    buffer_size: int = 1_000_000
    learning_starts: int = 1_000
    measured_from: int = 1_500  # by then everything is compiled
    phase_env_steps: int = 200  # for libraries that collect and learn in turn

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")


def read_marks(path: Path) -> list[Mark]:
    return [(env_steps, seconds) for env_steps, seconds in json.loads(path.read_text())]


def run_script(train: Callable[[PeerJob], list[Mark]]) -> None:
    """Read the job, do it, write the marks."""
    job, marks = map(Path, sys.argv[1:])
    marks.write_text(json.dumps(train(PeerJob(**json.loads(job.read_text(encoding="utf-8"))))))
