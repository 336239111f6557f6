"""One method folder on a cluster: its task, and what its files tell of it from anywhere."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lfiw.cluster.ray import Share, lock_time, submit
from lfiw.errors import Damaged
from lfiw.plain_files import open_plain
from lfiw.runs.checkpoint import list_checkpoints
from lfiw.runs.read import LOG
from lfiw.runs.recovery import is_finished
from lfiw.runs.rows import parse_row
from lfiw.settings import to_json
from lfiw.training.folder import Training
from lfiw.training.progress import Progress

MAX_LOOK_BYTES = 2**26  # of new rows at once
WAITING, TRAINING, DONE, FAILED = "waiting", "training", "done", "failed"


@dataclass
class ClusterTask:
    """A method folder on its way: its task, if it has one, and what is known of it."""

    training: Training
    share: Share = field(init=False)
    reference: Any = None  # Ray's, while it is submitted
    lock_time: int = 0  # when the task was submitted
    deaths: int = 0  # since the last checkpoint
    checkpoint: str = ""  # the newest one when the task was submitted
    failure: str = ""
    progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        folder, config = self.training.folder, self.training.config
        name = "/".join(folder.parts[-2:])
        self.progress = Progress(name, config.env_steps, len(config.seeds))
        self.log = LogReader(folder / LOG, self.progress)
        self.log.read()
        self.progress.state = DONE if is_finished(folder, config.env_steps) else WAITING

    def submit(self, ray: Any, workers: int | None) -> None:
        folder = self.training.folder.absolute()
        self.lock_time = lock_time(folder)
        newest = next((path.name for path in list_checkpoints(folder)), "")
        self.deaths = self.deaths if newest == self.checkpoint else 0
        self.checkpoint = newest
        config = to_json(self.training.config)
        self.reference = submit(ray, folder, config, self.share, workers)
        self.progress.state = WAITING

    def look(self) -> None:
        """Read what the task has written so far."""
        if self.reference is not None and lock_time(self.training.folder) != self.lock_time:
            self.progress.state = TRAINING
        self.log.read()

    def end(self, state: str, failure: str = "") -> None:
        self.reference = None
        self.progress.state = state
        self.failure = f"{self.progress.name} failed: {failure}" if failure else ""


class LogReader:
    """Follows the log of a method, from wherever it is trained."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self.path = path
        self.progress = progress
        self.position = 0

    def read(self) -> None:
        try:
            with open_plain(self.path) as file:
                if os.fstat(file.fileno()).st_size < self.position:  # a resumed run has cut it
                    self.position = self.progress.faults = 0
                    self.progress.stopped, self.progress.ended = [], []
                file.seek(self.position)
                whole, newline, _ = file.read(MAX_LOOK_BYTES).rpartition(b"\n")
        except (OSError, Damaged):
            return
        self.position += len(whole) + len(newline)
        for line in whole.splitlines():
            if row := parse_row(line):  # the log may change while it is read
                self._show(row)

    def _show(self, row: dict[str, Any]) -> None:
        self.progress.on_row(row)
        if row["kind"] == "train":
            self.progress.env_steps, self.progress.updates = row["env_steps"], row["updates"]
