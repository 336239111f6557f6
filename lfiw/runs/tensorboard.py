"""TensorBoard files of a method folder, derived from its log."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.summary import scalar

from lfiw.runs.points import Points


class Boards:
    """One event file for each seed, written anew whenever a run is opened."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[int, EventsWriter] = {}
        self._points: defaultdict[int, Points] = defaultdict(Points)  # of each seed
        shutil.rmtree(folder, ignore_errors=True)

    def write(self, row: dict[str, Any]) -> None:
        seed, env_steps = row["seed"], row["env_steps"]
        if not (points := self._points[seed].of(row)):
            return
        writer = self._writer(seed)
        for tag, value in points.items():
            summary = scalar(tag, value)
            writer.write_event(Event(wall_time=time.time(), step=env_steps, summary=summary))
        if row["kind"] == "eval":
            writer.flush()

    def _writer(self, seed: int) -> EventsWriter:
        if seed not in self._writers:
            folder = self._folder / f"seed-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            # Written by this thread: a failing disk then stops the run with a sentence.
            self._writers[seed] = EventsWriter(str(folder / "events"))
        return self._writers[seed]

    def close(self) -> None:
        for writer in self._writers.values():
            with suppress(OSError):  # the disk may be full
                writer.close()
