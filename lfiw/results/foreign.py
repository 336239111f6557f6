"""Logs of other libraries: where they are, and whose.

docs/report.md has the table of what is read and how it is named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lfiw.errors import Damaged, InputError, NothingYet
from lfiw.results.foreign_logs import (
    EVALUATIONS,
    Log,
    env_of_monitor,
    is_table,
    make_log,
    read_evaluations,
    read_events,
    read_monitors,
    read_table,
)
from lfiw.wording import one_line

TABLE = "a table with the columns method, seed, env_steps and return"
# Where a run has several, the first is read.
READERS: dict[str, Callable[[Sequence[Path]], Log]] = {
    "the evaluations of Stable-Baselines3": lambda paths: read_evaluations(paths[0]),
    "a TensorBoard file": read_events,
    "a monitor file of Stable-Baselines3": read_monitors,
}
NPZ, EVENTS, MONITOR = READERS
# CleanRL names a run ENV__METHOD__SEED__TIME.
CLEANRL = re.compile(r"(?P<task>.+?)__(?P<method>.+)__(?P<seed>\d{1,18})__\d+")
# Others number them: SAC_1, sac-seed0, seed=3, Hopper-v5_1.
NUMBERED = re.compile(r"(?:(?P<name>.+?)[_-])?(?:seed|run)?[_=-]?(?P<seed>\d{1,18})", re.I)
ENV_ID = re.compile(r".+-v\d+")
# Folders within a run's.
INNER = {"eval", "evaluation", "evaluations", "train", "monitor", "tb", "tensorboard"}


class Run(NamedTuple):
    task: str
    agent: str  # known of tables alone
    method: str
    seed: int | None  # None: the log does not say
    log: Log
    source: Path
    is_named: bool = False  # its method by the user


class Found(NamedTuple):
    """A log and the folder of the run that it belongs to."""

    kind: str
    files: list[Path]
    home: Path


def split_name(path: str | Path) -> tuple[str, list[Path]]:
    """What `METHOD=FOLDER,FOLDER...` names, patterns too; a path that exists is one."""
    text = str(path)
    method, equals, places = text.partition("=")
    if not equals or os.path.lexists(text):
        return "", [Path(path)]
    found = [
        one
        for place in map(Path, places.split(","))
        for one in ([place] if place.exists() else sorted(place.parent.glob(place.name)) or [place])
    ]
    if not method.strip() or not all(places.split(",")):
        raise InputError(f"Logs are named as METHOD=FOLDER or METHOD=FOLDER,FOLDER, not {text!r}.")
    return one_line(method.strip()), found


def read_runs(
    path: Path, method: str, task: str, note: Callable[[str], None]
) -> tuple[list[Run], list[NothingYet]]:
    """The runs whose logs are at or below a path, and what was said of those without a return. The
    method and the task are found in the logs and in names of folders where they are empty."""
    runs: list[Run] = []
    missing: list[NothingYet] = []
    logs, tables = _find(path)
    monitors = {one.home: one.files[0] for one in logs if one.kind == MONITOR}
    for one in _preferred(logs, note):
        try:
            with _said_of(one.files[0], one.kind):
                log = READERS[one.kind](one.files)
                beside = env_of_monitor(monitors[one.home]) if one.home in monitors else ""
        except NothingYet as error:
            missing.append(error)
            continue
        found = names_of(one.home, log.env or beside)
        runs.append(Run(task or found[0], "", method or found[1], found[2], log, one.home))
    for table in tables:
        runs += _table_runs(table, method, task)
    if method:
        runs = [run._replace(is_named=True) for run in runs]
    return runs, missing


@contextmanager
def _said_of(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except Damaged as error:
        raise InputError(f"{path} is not {kind}: {str(error).rstrip('.')}.") from None


def _find(path: Path) -> tuple[list[Found], list[Path]]:
    """The logs at or below a path, and the tables."""
    files = sorted(_files(path))
    tables = []
    groups: dict[tuple[str, Path], list[Path]] = {}
    for file in files:
        if kind := _kind_of(file):
            groups.setdefault((kind, _home(file, path)), []).append(file)
        elif file.suffix.lower() == ".csv" and (file == path or is_table(file)):
            tables.append(file)
    logs = [Found(kind, own, home) for (kind, home), own in groups.items()]
    if not logs and not tables:
        raise InputError(
            f"{path} holds neither method folders nor stored results, nor other libraries' logs: "
            "evaluations.npz, TensorBoard files, monitor.csv, or a CSV table of returns."
        )
    return logs, tables


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
    for folder, _, names in os.walk(path):
        yield from (Path(folder, name) for name in names)


def _kind_of(file: Path) -> str:
    if file.name.endswith("monitor.csv"):
        return MONITOR
    if "tfevents" in file.name:
        return EVENTS
    return NPZ if file.name == "evaluations.npz" else ""


def _home(file: Path, named: Path) -> Path:
    """The folder of the run: that of the file, or of NAME.monitor.csv a folder NAME; 0.monitor.csv
    and so on are of one run's environments."""
    folder = file.parent
    name = file.name.removesuffix("monitor.csv").rstrip("._-")
    if _kind_of(file) == MONITOR and name and not name.isdecimal():
        folder = folder / name
    while folder.name.lower() in INNER and named in folder.parents:
        folder = folder.parent
    return folder


def _preferred(logs: Sequence[Found], note: Callable[[str], None]) -> list[Found]:
    """Of logs in one folder, above and below each other, the kind that comes first."""
    chosen: list[Found] = []
    for kind in READERS:
        better = {one.home: one for one in chosen}
        above = {parent: one for one in chosen for parent in one.home.parents}
        for one in logs:
            if one.kind != kind:
                continue
            around = [better.get(place) for place in (one.home, *one.home.parents)]
            rival = next(filter(None, [*around, above.get(one.home)]), None)
            if rival is None:
                chosen.append(one)
            elif rival.home != one.home:
                note(f"{one.files[0]} is left out: {rival.files[0]} is read in its place.")
    return sorted(chosen, key=lambda one: one.home)


def names_of(home: Path, env: str = "") -> tuple[str, str, int | None]:
    """Task, method and seed of a run by the name of its folder and those above it; `env` is the
    task as the log has it."""
    folder = home.resolve()
    if match := CLEANRL.fullmatch(folder.name):
        return one_line(match["task"]), one_line(match["method"]), int(match["seed"])
    names = [folder.name, *(parent.name for parent in folder.parents if parent.name)]
    seed = None
    if match := NUMBERED.fullmatch(names[0]):
        seed = int(match["seed"])
        names[0] = match["name"] or ""
    # rl-zoo has ENV_1/ENV, whatever the environment is called.
    if not env and seed is not None and names[0] and (folder / names[0]).is_dir():
        env = names[0]
    words = [[] if name == env else name.split("_") for name in names]
    tasks = [word for own in words for word in own if ENV_ID.fullmatch(word)]
    others = ["_".join(word for word in own if not ENV_ID.fullmatch(word)) for own in words]
    method, above = [*filter(None, others), "unnamed", "unnamed"][:2]
    return one_line(env or next(iter(tasks), above)), one_line(method), seed


def _table_runs(path: Path, method: str, task: str) -> list[Run]:
    by_run: dict[tuple[str, str, str, int], list[tuple[int, float]]] = {}
    with _said_of(path, TABLE):
        rows = read_table(path)
    for row in rows:
        name = method or one_line(row.method)
        agent = one_line(row.agent)
        if agent and name != agent and not name.startswith(f"{agent}-"):
            name = f"{agent}-{name}"
        key = (task or one_line(row.task or path.stem), agent, name, row.seed)
        by_run.setdefault(key, []).append((row.env_steps, row.value))
    if not by_run:
        raise NothingYet(f"{path} has no rows.")
    runs = []
    for key, points in by_run.items():
        steps, values = zip(*points, strict=True)
        if len(set(steps)) < len(steps):
            raise InputError(
                f"{path} has two returns of {key[2]}, seed {key[3]}, on {key[0]} at one "
                "environment step."
            )
        with _said_of(path, TABLE):
            log = make_log(path, steps, values, EVALUATIONS)
        runs.append(Run(*key, log, path))
    return runs


def numbered(runs: Sequence[Run]) -> list[Run]:
    """Every run with a seed of its own within its method and task: runs without one have the next
    numbers, and so have all runs of a method that the user put together and whose seeds meet."""
    seeds: dict[tuple[str, str], dict[int, Run]] = {}
    for run in runs:
        if run.seed is None:
            continue
        known = seeds.setdefault((run.task, run.method), {})
        other = known.setdefault(run.seed, run)
        if other is not run and not (other.is_named and run.is_named):
            raise InputError(
                f"{other.source} and {run.source} are both seed {run.seed} of {run.method} on "
                f"{run.task}; name only one of them, or both as METHOD=FOLDER."
            )
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.task, run.method), []).append(run)
    return [one for key, own in groups.items() for one in _with_seeds(own, set(seeds.get(key, ())))]


def _with_seeds(runs: Sequence[Run], known: set[int]) -> list[Run]:
    if len(known) < sum(run.seed is not None for run in runs):  # two meet
        return [run._replace(seed=number) for number, run in enumerate(runs)]
    free = (number for number in range(len(runs) + len(known)) if number not in known)
    seeds = [next(free) if run.seed is None else run.seed for run in runs]
    order = sorted(range(len(runs)), key=lambda index: seeds[index])
    return [runs[index]._replace(seed=seeds[index]) for index in order]
