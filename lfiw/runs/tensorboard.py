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

from lfiw.runs.metrics import tags_of

# Thins these files, never the log: a point for each twentieth of the steps so far, at least.
MOST_ENV_STEPS, SHARE = 5000, 20

NOT_PLOTTED = {
    *("kind", "seed", "env_steps", "updates", "wall_seconds", "episodes", "faults", "reason"),
}


class Boards:
    """One event file for each seed, written anew whenever a run is opened."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[int, EventsWriter] = {}
        self._shown_at: dict[int, int] = {}
        self._known: defaultdict[int, set[str]] = defaultdict(set)  # of each seed, once shown
        shutil.rmtree(folder, ignore_errors=True)

    def write(self, row: dict[str, Any]) -> None:
        seed, env_steps = row["seed"], row["env_steps"]
        if row["kind"] == "train":
            # The first losses of a run are shown, however short it is.
            gap = env_steps - self._shown_at.get(seed, -MOST_ENV_STEPS)
            if gap < min(MOST_ENV_STEPS, env_steps // SHARE) and row.keys() <= self._known[seed]:
                return
            self._shown_at[seed] = env_steps
            self._known[seed] |= row.keys()
        writer = self._writer(seed)
        for name, value in row.items():
            if name in NOT_PLOTTED or value is None:
                continue
            for tag in tags_of(name):
                elements = enumerate(value) if isinstance(value, list) else ((None, value),)
                for index, element in elements:
                    if element is not None:
                        own = tag if index is None else f"{tag}_{index}"
                        summary = scalar(own, element)
                        writer.write_event(
                            Event(wall_time=time.time(), step=env_steps, summary=summary)
                        )
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
