"""The formats of other libraries' logs. Their files may be anybody's: each must be a plain one of
bounded size, and what is wrong with it is said in a few words, as `Damaged`."""

from __future__ import annotations

import csv
import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from numpy.typing import ArrayLike
from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event

from lfiw.errors import Damaged, NothingYet
from lfiw.plain_files import open_plain, read_lines, read_plain
from lfiw.runs.files import short_int
from lfiw.wording import one_line

MAX_BYTES = 2**30
MAX_LINE_BYTES = 2**16
MAX_RECORD_BYTES = 2**26  # of a TensorBoard file, which may hold pictures
EVALUATIONS, EPISODES = "evaluations", "episodes of training"
# What is read of a TensorBoard file: the first of these tags that it has. Stable-Baselines3 logs a
# mean over its last 100 episodes, CleanRL every episode.
TAGS = {
    "eval/mean_reward": EVALUATIONS,
    "charts/episodic_return": EPISODES,
    "rollout/ep_rew_mean": "means of training",
}


class Log(NamedTuple):
    """The curve of one run."""

    env_steps: np.ndarray  # [E], not decreasing
    returns: np.ndarray  # [E]
    kind: str  # what a return is of: EVALUATIONS, EPISODES or means of them
    env: str = ""  # empty where the log does not say


def make_log(source: Path, env_steps: ArrayLike, returns: ArrayLike, kind: str) -> Log:
    """In the order of steps. Several episodes may end at one step; of evaluations the last counts,
    as where a run was continued."""
    steps, values = np.asarray(env_steps, float), np.asarray(returns, float)
    if not len(steps):
        raise NothingYet(f"{source} has no return yet.")
    if not (np.isfinite(steps) & (steps >= 0) & (steps < 2**53)).all():
        raise Damaged("its environment steps are not all numbers from 0 on")
    if not np.isfinite(values).all():
        where = int(steps[~np.isfinite(values)][0])
        raise Damaged(f"its return at environment step {where:,} is not finite")
    order = np.argsort(steps, kind="stable")
    steps, values = steps[order].astype(np.int64), values[order]
    if kind != EPISODES:
        last = np.append(steps[1:] != steps[:-1], True)
        steps, values = steps[last], values[last]
    return Log(steps, values, kind)


# Stable-Baselines3: what its EvalCallback writes, and its Monitor.


def read_evaluations(path: Path) -> Log:
    """`evaluations.npz`: timesteps [E] and results [E, episodes], averaged over episodes."""
    content = io.BytesIO(read_plain(path, MAX_BYTES))
    try:
        with zipfile.ZipFile(content) as archive:
            timesteps, results = (_array(archive, f"{n}.npy") for n in ("timesteps", "results"))
    except (
        zipfile.BadZipFile,
        zlib.error,
        LookupError,
        ValueError,
        EOFError,
        RuntimeError,
    ) as error:
        raise Damaged(_reason(error)) from None
    if timesteps.ndim != 1 or results.shape[:1] != timesteps.shape or results.ndim > 2:
        raise Damaged(f"timesteps {timesteps.shape} do not fit to results {results.shape}")
    if results.ndim == 2 and not results.shape[1]:
        raise Damaged("its evaluations have no episodes")
    return make_log(path, timesteps, results.reshape(len(timesteps), -1).mean(axis=1), EVALUATIONS)


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Numbers alone, as many as the archive holds: no memory is taken for what a header claims."""
    if archive.getinfo(name).file_size > MAX_BYTES:
        raise ValueError(f"{name} is too large")
    file = io.BytesIO(archive.read(name))
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} has an unknown version")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else _read_header_2
    shape, is_fortran, dtype = read(file)
    if dtype.kind not in "iuf" or (is_fortran and len(shape) > 1):
        raise ValueError(f"{name} does not hold plain numbers")
    data = file.read()
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"{name} has another size than it says")
    return np.frombuffer(data, dtype).reshape(shape)


_read_header_2 = np.lib.format.read_array_header_2_0


def read_monitors(paths: Sequence[Path]) -> Log:
    """The monitor files of one run, one for each of its environments: episodes in the order in
    which they ended, and the steps of all up to then."""
    episodes: list[tuple[float, int, float]] = []  # when it ended, its length, its return
    for path in paths:
        header, own = _read_monitor(path)
        start = header.get("t_start", 0.0)
        if not isinstance(start, int | float):
            raise Damaged(f"{path.name} has no time of its start")
        episodes += [(start + time, length, value) for time, length, value in own]
    if len(paths) > 1:  # one file is in order, also where a run was continued and time began anew
        episodes.sort(key=lambda episode: episode[0])
    steps = np.cumsum([length for _, length, _ in episodes])
    log = make_log(paths[0], steps, [value for *_, value in episodes], EPISODES)
    return log._replace(env=env_of_monitor(paths[0]))


def _read_monitor(path: Path) -> tuple[dict[str, object], list[tuple[float, int, float]]]:
    lines = _lines(path)
    try:
        header = _header(next(lines, ""))
        rows = csv.DictReader(lines)
        if not {"r", "l", "t"} <= set(rows.fieldnames or ()):
            raise ValueError("it has no columns r, l and t")
        own = [(float(row["t"]), _length(row["l"]), float(row["r"])) for row in rows]
    except (ValueError, TypeError, RecursionError, csv.Error) as error:
        raise Damaged(_reason(error)) from None
    return header, own


def _header(line: str) -> dict[str, object]:
    if not line.startswith("#{"):
        raise ValueError("its first line is not # and an object")
    return dict(json.loads(line[1:]))


def env_of_monitor(path: Path) -> str:
    """The environment's id in the first line; empty where there is none."""
    try:
        found = _header(next(_lines(path), "")).get("env_id")
    except (ValueError, RecursionError) as error:
        raise Damaged(_reason(error)) from None
    return one_line(found) if isinstance(found, str) and found != "None" else ""


def _length(text: str) -> int:
    length = short_int(text)
    if length < 0:
        raise ValueError(f"an episode has {length} steps")
    return length


def _lines(path: Path) -> Iterator[str]:
    """Without a last one that was cut short by a kill, which has no end."""
    held = None
    for line in read_lines(path, MAX_BYTES, MAX_LINE_BYTES):
        if held is not None:
            yield held
        held = line.decode("utf-8-sig")
    if held is not None and held.endswith("\n"):
        yield held


# TensorBoard: CleanRL, Stable-Baselines3 and SBX.


def read_events(paths: Sequence[Path]) -> Log:
    """The event files of one run: its returns under the best of the tags."""
    found: dict[str, list[tuple[int, float]]] = {tag: [] for tag in TAGS}
    for path in paths:
        for tag, env_steps, value in _scalars(path):
            found[tag].append((env_steps, value))
    for tag, kind in TAGS.items():
        if points := found[tag]:
            env_steps, values = np.array(points, float).T
            return make_log(paths[0], env_steps, values, kind)
    raise NothingYet(f"{paths[0]} has no value of {', '.join(TAGS)}.")


def _scalars(path: Path) -> Iterator[tuple[str, int, float]]:
    wanted = [tag.encode() for tag in TAGS]
    for number, record in enumerate(_records(path)):
        if number and not any(tag in record for tag in wanted):
            continue
        try:
            event = Event.FromString(record)
        except DecodeError:
            raise Damaged(f"its record {number} is not an event") from None
        if not number and not event.file_version.startswith("brain.Event:"):
            raise Damaged("it does not begin as one")
        for value in event.summary.value:
            if value.tag in TAGS:
                yield value.tag, event.step, _scalar(value)


def _scalar(value: Any) -> float:
    if value.WhichOneof("value") == "simple_value":
        return float(value.simple_value)
    tensor = value.tensor
    if len(tensor.tensor_content) == 4:
        return float(struct.unpack("<f", tensor.tensor_content)[0])
    if len(tensor.float_val) == 1:
        return float(tensor.float_val[0])
    raise Damaged(f"a value of {value.tag} is not a number")


def _records(path: Path) -> Iterator[bytes]:
    """The records of a TFRecord file: length, its checksum, content, checksum. A record that a kill
    cut short ends the file."""
    with open_plain(path, MAX_BYTES) as file:
        if not (record := _record(file)):
            raise Damaged("it does not begin as one")
        while record:
            yield record
            record = _record(file)


def _record(file: BinaryIO) -> bytes:
    head = file.read(12)
    if len(head) < 12:
        return b""
    length, checksum = struct.unpack("<QI", head)
    if checksum != _masked(crc32c(head[:8])) or length > MAX_RECORD_BYTES:
        raise Damaged(f"the record before byte {file.tell():,} has no valid length")
    content = file.read(length + 4)
    return content[:-4] if len(content) == length + 4 else b""


def _masked(checksum: int) -> int:
    """As TFRecord files have it."""
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF


# Tables that anybody can write.


class Row(NamedTuple):
    method: str
    seed: int
    env_steps: int
    value: float
    task: str
    agent: str


NAMES = {"task": ("task", "env"), "value": ("return", "return_mean")}


def is_table(path: Path) -> bool:
    """Whether a CSV file has the columns of one; others may lie beside it."""
    try:
        header = next(csv.reader([next(_lines(path), "")]), [])
    except (Damaged, ValueError, csv.Error, OSError):
        return False
    return not _missing(header)


def read_table(path: Path) -> list[Row]:
    lines = read_lines(path, MAX_BYTES, MAX_LINE_BYTES)
    reader = csv.DictReader(line.decode("utf-8-sig") for line in lines)
    try:
        reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
        if missing := _missing(reader.fieldnames):
            raise ValueError(f"it has no column {missing[0]}")
        names = reader.fieldnames
        return [_row({name: row.get(name) or "" for name in names}) for row in reader]
    except (TypeError, ValueError, csv.Error) as error:
        raise Damaged(f"line {max(reader.line_num, 1)}: {_reason(error)}") from None


def _missing(header: Sequence[str]) -> list[str]:
    names = {name.strip().lower() for name in header}
    missing = [name for name in ("method", "seed", "env_steps") if name not in names]
    return missing + ([] if names & {*NAMES["value"]} else ["return"])


def _row(row: dict[str, str]) -> Row:
    def first(names: Sequence[str]) -> str:
        return next((row[name].strip() for name in names if row.get(name)), "")

    if not row["method"].strip():
        raise ValueError("a row has no method")
    return Row(
        *(row["method"].strip(), _whole(row["seed"]), _whole(row["env_steps"])),
        *(float(first(NAMES["value"])), first(NAMES["task"]), first(("agent",))),
    )


def _whole(text: str) -> int:
    """A whole number, also as 1000.0 or 1e6."""
    number = float(text)
    if not number.is_integer():
        raise ValueError(f"{text!r} is not a whole number")
    if abs(number) >= 2**53:
        raise ValueError(f"{text!r} is too large")
    return int(number)


def _reason(error: Exception) -> str:
    """What an error says, as a part of a sentence."""
    return one_line(str(error) or type(error).__name__, longest=200).rstrip(".")
