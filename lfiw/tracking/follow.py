"""From a method folder to a tracker: what its log has, once each, in the order of the log.

The folder is read as anybody could read it, also while it is trained. What was sent is kept
beside it, so that whoever comes later goes on in the same runs.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from lfiw.errors import Damaged
from lfiw.plain_files import open_plain
from lfiw.runs.config_file import read_config
from lfiw.runs.files import read_json, write_json
from lfiw.runs.layout import main_folder, safe_name
from lfiw.runs.points import Points
from lfiw.runs.read import LOG, read_metrics
from lfiw.runs.recovery import is_finished
from lfiw.runs.rows import Row, parse_row
from lfiw.tracking import About, OpenRun, Point, Tracked

FOLDER, STATE = "tracking", "runs.json"
LOOK_BYTES = 2**22  # of the log at once
TOLD = {"warning": "warning", "stopped": "stopped", "ended": "ended", "failed eval": "failed"}
FINAL_SHARE, MOST_FINAL = 10, 10  # the final evaluations: a tenth, at most ten
PRIVATE = ("config", "signature", "sha256")  # of config.json; the first is told by itself

Place = tuple[int, int]  # in the log of a seed: environment steps, and which row of these


@dataclass
class Sent:
    """What is known of a seed's run in a tracker."""

    id: str | None = None
    place: Place = (-1, 0)  # of the last row that was sent
    video: int = -1  # environment steps at which its video was made


@dataclass
class Reading:
    """Of one seed, from the beginning of the log."""

    points: Points = field(default_factory=Points)
    place: Place = (-1, 0)
    seconds: float = 0.0

    def read(self, row: Row) -> None:
        before, number = self.place
        env_steps = row["env_steps"]
        self.place = (env_steps, number + 1 if env_steps == before else 1)
        seconds = row.get("wall_seconds")
        self.seconds = seconds if isinstance(seconds, float | int) else self.seconds


def place_of(folder: Path, name: str) -> Path:
    """Where a tracker's ids are kept; derived from the log as its TensorBoard files are."""
    return folder / FOLDER / name


class Follower:
    """One method folder, without those added to it, and one tracker."""

    def __init__(self, folder: Path, name: str, open_run: OpenRun) -> None:
        self.folder, self._open_run = folder, open_run
        self.place = place_of(folder, name)
        self.config = read_config(folder)
        self.sent = self._read_state()
        self.runs: dict[int, Tracked] = {}
        self.rewind()

    def rewind(self) -> None:
        """Read the log from its beginning; what was sent is not sent again."""
        self._position, self._file = 0, -1
        self._readings: defaultdict[int, Reading] = defaultdict(Reading)

    def advance(self) -> bool:
        """Send what the log has beyond what was read; says whether it had anything."""
        try:
            rows, position = self._new_rows()
            for seed, own in rows.items():
                self._send(seed, own)
        except BaseException:
            self.rewind()  # of this part some may be sent already, and some not
            raise
        moved = position > self._position
        self._position = position
        return moved

    def _new_rows(self) -> tuple[dict[int, list[Row]], int]:
        """By seed, and where they end in the log."""
        rows: defaultdict[int, list[Row]] = defaultdict(list)
        try:
            with open_plain(self.folder / LOG) as file:
                status = os.fstat(file.fileno())
                # A resume cuts the log back to its checkpoint, as a file of its own.
                if status.st_ino != self._file or status.st_size < self._position:
                    self.rewind()
                    self._file = status.st_ino
                file.seek(self._position)
                whole, newline, _ = file.read(LOOK_BYTES).rpartition(b"\n")
        except Damaged:  # it is not there yet
            return {}, self._position
        for line in whole.splitlines():
            if (row := parse_row(line)) and row["seed"] in self.seeds():
                rows[row["seed"]].append(row)
        return rows, self._position + len(whole) + len(newline)

    def seeds(self) -> list[int]:
        found: list[int] = self.config["config"]["seeds"]
        return found

    def _send(self, seed: int, rows: list[Row]) -> None:
        reading, sent = self._readings[seed], self.sent[seed]
        points: list[Point] = []
        told: list[Row] = []
        place = sent.place
        for row in rows:
            reading.read(row)
            numbers = reading.points.of(row)
            if reading.place <= sent.place or not (numbers or row["kind"] in TOLD):
                continue
            place = reading.place
            if numbers:
                seconds = started(self.config) + reading.seconds
                points.append(Point(row["env_steps"], seconds, numbers))
            if row["kind"] in TOLD:
                told.append(row)
        if place == sent.place:
            return
        run = self._run(seed)
        if points:
            run.log(points)
        for row in told:
            reason = row.get("reason") or "; ".join(row.get("faults", ()))
            run.tell(TOLD[row["kind"]], str(reason), row["env_steps"])
        sent.place = place
        self._write_state()

    def _run(self, seed: int) -> Tracked:
        if seed not in self.runs:
            known = self.sent[seed].id
            self.runs[seed] = self._open_run(about(self.folder, self.config, seed), known)
            self.sent[seed].id = self.runs[seed].id
            self._write_state()
        return self.runs[seed]

    def lacks_video(self) -> int | None:
        """The first seed that was not given up, of a finished training whose video was not sent."""
        rows = read_metrics(self.folder) if self.is_finished() else []
        stopped = {row["seed"] for row in rows if row["kind"] == "stopped"}
        seed = next((seed for seed in self.seeds() if seed not in stopped), None)
        if not rows or seed is None or self.sent[seed].video == self.last_step(seed):
            return None
        return seed

    def show(self, seed: int, video: Path) -> None:
        env_steps = self.last_step(seed)
        self._run(seed).show(video, env_steps)
        self.sent[seed].video = env_steps
        self._write_state()

    def last_step(self, seed: int) -> int:
        """That was read."""
        return max(self._readings[seed].place[0], 0)

    def is_finished(self) -> bool:
        return is_finished(self.folder, self.config["config"].get("env_steps", 0))

    def close(self) -> Iterator[None]:
        """Close the runs that were opened, one at each step."""
        rows = read_metrics(self.folder) if self.runs else []
        left = "finished" if self.is_finished() else "unfinished"
        for seed in sorted(self.runs):
            own = [row for row in rows if row["seed"] == seed]
            kinds = {row["kind"] for row in own}
            state = next((kind for kind in ("stopped", "ended") if kind in kinds), left)
            self.runs.pop(seed).close(summary(own), state, self.last_step(seed))
            yield

    def _read_state(self) -> defaultdict[int, Sent]:
        found: defaultdict[int, Sent] = defaultdict(Sent)
        try:
            for seed, own in read_json(self.place / STATE)["runs"].items():
                env_steps, number = own["place"]
                found[int(seed)] = Sent(
                    None if own["id"] is None else str(own["id"]),
                    (int(env_steps), int(number)),
                    int(own["video"]),
                )
        except (Damaged, OSError, KeyError, TypeError, ValueError, AttributeError):
            return defaultdict(Sent)  # nothing is known: new runs begin
        return found

    def _write_state(self) -> None:
        known = {str(seed): vars(sent) for seed, sent in sorted(self.sent.items()) if sent.id}
        write_json(self.place / STATE, {"runs": known})


def about(folder: Path, config: Mapping[str, Any], seed: int) -> About:
    settings = config["config"]
    main = main_folder(folder.absolute())
    parts = {name: str((settings.get(name) or {}).get("name")) for name in ("agent", "replay")}
    label = main.name.removeprefix(safe_name("-".join(parts.values()))).lstrip("-")
    task = str(settings["env"]["id"])
    tags = {"agent": parts["agent"], "strategy": parts["replay"], "task": task}
    group = f"{safe_name(task)}/{main.name}"
    circumstances = {name: value for name, value in config.items() if name not in PRIVATE}
    return About(
        f"{group}/seed-{seed}",
        group,
        {**settings, **circumstances, "seed": seed},
        {**tags, "label": label} if label else tags,
    )


def started(config: Mapping[str, Any]) -> float:
    """When training began; its log has seconds since then."""
    try:
        return datetime.fromisoformat(config["started"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return 0.0


def summary(rows: list[Row]) -> dict[str, float]:
    """Of a seed's rows: its final return and its maximum, as the table of `lfiw train` has them."""
    returns = [row["return_mean"] for row in rows if row["kind"] == "eval"]
    returns = [value for value in returns if value is not None]
    if not returns:
        return {}
    count = min(MOST_FINAL, max(1, len(returns) // FINAL_SHARE))
    return {"final_return": sum(returns[-count:]) / count, "max_return": max(returns)}
