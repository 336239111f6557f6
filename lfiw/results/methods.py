"""Methods read back, from method folders, from the store below `results/` and from logs of other
libraries.

A store's folder holds one task: `curves.csv`, a row per method, seed and evaluation, and
`METHOD.json` with what was recorded of each method.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lfiw.errors import Damaged, InputError, NothingYet
from lfiw.plain_files import read_lines
from lfiw.results.catalogue import ENV_STEPS, STRATEGIES, family_of, strategy_title
from lfiw.results.curves import Curves, column, make_curves, rows_by_seed
from lfiw.results.foreign import (
    Run,
    numbered,
    read_runs,
    split_name,
)
from lfiw.results.processes import map_in_processes
from lfiw.results.shared_steps import common_steps, make_foreign, remarks
from lfiw.runs.config_file import read_config_file
from lfiw.runs.files import short_int
from lfiw.runs.layout import CONFIG, folders_below, parts_of
from lfiw.runs.metrics import DIAGNOSTICS
from lfiw.runs.read import read_metrics
from lfiw.runs.rows import Row
from lfiw.wording import nearest, one_line

CURVES_FILE = "curves.csv"
MAX_TABLE_BYTES = 2**28  # 1.5 million evaluations
MAX_LINE_BYTES = 2**16
PLAIN_DIAGNOSTICS = [metric.name for metric in DIAGNOSTICS if not metric.size]
LISTED_DIAGNOSTICS = [metric for metric in DIAGNOSTICS if metric.size]
LISTED = {metric.name: metric.columns for metric in LISTED_DIAGNOSTICS}
DIAGNOSTIC_COLUMNS = tuple(column for metric in DIAGNOSTICS for column in metric.columns)


@dataclass(frozen=True)
class Method:
    """One method on one task: its curves by seed, and what produced them."""

    curves: Curves  # `env` is the task: the id, and the arguments where there are some
    diagnostics: dict[str, np.ndarray]  # column -> [S, E] at the evaluations, nan where absent
    record: dict[str, Any]  # config, versions, hardware, command and what else was recorded
    source: Path

    def has(self, name: str) -> bool:
        """Whether it logged this metric."""
        return all(column in self.diagnostics for column in columns_of(name))

    def logged(self, name: str) -> np.ndarray:
        """A metric of training at the evaluations [S, E], or [S, E, size] of a list such as
        `weight_by_age`; nan where it is absent."""
        columns = columns_of(name)
        if not self.has(name):
            raise InputError(f"{self.source} has no {name}.{nearest(name, self.diagnostics)}")
        found = [self.diagnostics[column] for column in columns]
        return np.stack(found, axis=-1) if name in LISTED else found[0]

    @property
    def task(self) -> str:
        return self.curves.env

    @property
    def name(self) -> str:
        return self.curves.method

    @property
    def agent(self) -> str:
        return self.curves.agent

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.record["config"])

    @property
    def is_foreign(self) -> bool:
        """From a log of another library, which has no configuration."""
        return not self.record["config"]

    @property
    def versions(self) -> dict[str, str]:
        return self.record.get("versions") or {}

    @property
    def hardware(self) -> dict[str, Any]:
        return self.record.get("hardware") or {}

    @property
    def command(self) -> str:
        """As it is typed; empty where it was not recorded, as with the commit."""
        command = self.record.get("command") or ""
        return command if isinstance(command, str) else shlex.join(map(str, command))

    @property
    def commit(self) -> str:
        return self.record.get("commit") or ""

    @property
    def wall_seconds(self) -> float | None:
        return self.record.get("wall_seconds")

    @property
    def stopped_seeds(self) -> list[int]:
        """Those that were given up for numbers that were not finite; they have no curve."""
        runs = (self.record, *self.record.get("earlier_runs", ()))
        return sorted(seed for run in runs for seed in run.get("stopped_seeds", ()))

    @property
    def replay(self) -> str:
        """The kind of strategy, without a label."""
        return str((self.config.get("replay") or {}).get("name", ""))

    @property
    def label(self) -> str:
        if self.is_foreign:
            return ""
        return self.curves.strategy.removeprefix(self.replay).removeprefix("-")

    @property
    def title(self) -> str:
        """The name in the paper's form, such as SAC + LFIW."""
        if not (self.agent and self.replay):
            return self.name
        return method_title(self.agent, self.replay, self.label)

    @property
    def place(self) -> str:
        """The task with its agent."""
        return f"{self.agent.upper()} {self.task}".strip()

    @property
    def strategy_title(self) -> str:
        if not self.replay:
            return self.curves.strategy
        return _labelled(strategy_title(self.replay), self.label)


def columns_of(name: str) -> tuple[str, ...]:
    """Where a metric is among the diagnostics."""
    return LISTED.get(name, (name,))


def method_title(agent: str, replay: str, label: str = "") -> str:
    strategy = "" if replay == "uniform" else f" + {strategy_title(replay)}"
    plain = agent.upper() + strategy
    return _labelled(plain, label)


def _labelled(title: str, label: str) -> str:
    return f"{title} ({label})" if label else title


def read_methods(
    paths: Sequence[str | Path],
    names: Sequence[str] = (),
    note: Callable[[str], None] = lambda sentence: None,
    env_steps: int | None = None,
    task: str = "",
) -> list[Method]:
    """The named methods, or all, of the method folders and stores at or below the paths, in the
    paper's order, and up to `env_steps`; where a path has none, of other libraries' logs, which
    `METHOD=PATH` and `task` name. `note` is told of runs without an evaluation, which are left
    out."""
    if env_steps is not None and env_steps < 1:
        raise InputError(f"env_steps must be at least 1, not {env_steps}.")
    if not paths:
        raise InputError("Name at least one folder with runs or results.")
    sources, logs = _find(paths)
    missing: list[NothingYet] = []
    found = _read_own(list(sources.values()), missing)
    runs = _read_logs(logs, one_line(task), note, missing)
    if missing and not found and not runs:
        raise missing[0]
    for empty in missing:
        note(f"{empty} It is left out.")
    for run in runs:
        if own := found.get((run.task, run.method)):
            raise _twice(own, run.source)
    known = {method.name for method in found.values()} | {run.method for run in runs}
    for name in names:
        if name not in known:
            raise InputError(f"No run is of the method {name!r}.{nearest(name, known)}")
    chosen = [method for method in found.values() if not names or method.name in names]
    others = [run for run in runs if not names or run.method in names]
    together = with_logs(chosen, others, env_steps, note) if others else chosen
    ordered = sorted(together, key=_order)
    return ordered if env_steps is None else [cut(method, env_steps) for method in ordered]


def _find(paths: Sequence[str | Path]) -> tuple[dict[Path, Path], list[tuple[str, Path]]]:
    """Our own sources at or below the paths, by their place, and logs with their method's name."""
    sources: dict[Path, Path] = {}
    logs: dict[Path, tuple[str, Path]] = {}
    for named in paths:
        method, places = split_name(named)
        for path in places:
            if not path.exists():
                raise InputError(f"{path} does not exist.")
            ours = [] if method else _sources(path)
            sources |= {source.resolve(): source for source in ours}
            if not ours:
                logs.setdefault(path.resolve(), (method, path))
    return sources, list(logs.values())


def _read_own(sources: list[Path], missing: list[NothingYet]) -> dict[tuple[str, str], Method]:
    """By task and name; what is said of sources without an evaluation is added to the list."""
    found: dict[tuple[str, str], Method] = {}
    for methods in map_in_processes(_read_source, sources):
        if isinstance(methods, NothingYet):
            missing.append(methods)
            continue
        for method in methods:
            if other := found.get((method.task, method.name)):
                raise _twice(other, method.source)
            found[method.task, method.name] = method
    return found


def _twice(method: Method, source: Path) -> InputError:
    return InputError(
        f"{method.name} on {method.task} is in {method.source} and in {source}; name only one of "
        "them, or train with a --label."
    )


def _read_logs(
    logs: Sequence[tuple[str, Path]],
    task: str,
    note: Callable[[str], None],
    missing: list[NothingYet],
) -> list[Run]:
    runs: list[Run] = []
    for method, path in logs:
        own, empty = read_runs(path, method, task, note)
        known = {run.source.resolve() for run in runs}  # by a path that was named before
        runs += [run for run in own if run.source.resolve() not in known]
        missing += empty
    return numbered(runs)


def with_logs(
    methods: Sequence[Method],
    runs: Sequence[Run],
    env_steps: int | None,
    note: Callable[[str], None],
) -> list[Method]:
    """Our methods and those of other libraries' logs, at the same environment steps on every task
    that has such logs."""
    by_task: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        by_task.setdefault(run.task, {}).setdefault(run.method, []).append(run)
    together = [method for method in methods if method.task not in by_task]
    for task, groups in by_task.items():
        ours = [method for method in methods if method.task == task]
        own = [run for group in groups.values() for run in group]
        steps = common_steps(own, [method.curves.env_steps for method in ours], env_steps)
        for sentence in remarks(own, steps, bool(ours)):
            note(sentence)
        together += [at(method, np.isin(method.curves.env_steps, steps)) for method in ours]
        for group in groups.values():
            curves, record, source = make_foreign(group, steps)
            together.append(Method(curves, {}, record, source))
    return together


def cut(method: Method, env_steps: int) -> Method:
    """The method as it was after so many environment steps."""
    early = method.curves.env_steps <= env_steps
    if not early.any():
        raise InputError(
            f"{method.name} on {method.task} was first evaluated after "
            f"{method.curves.env_steps[0]:,} environment steps, not after {env_steps:,}."
        )
    return at(method, early)


def at(method: Method, chosen: np.ndarray) -> Method:
    """At the chosen evaluations alone, a mask of all."""
    return replace(
        method,
        curves=method.curves.at(method.curves.env_steps[chosen]),
        diagnostics={name: values[:, chosen] for name, values in method.diagnostics.items()},
    )


def task_name(env: dict[str, Any]) -> str:
    """The environment's id, with its arguments where it has some."""
    arguments = dict(env.get("kwargs") or {})
    if env.get("max_episode_steps") is not None:
        arguments["max_episode_steps"] = env["max_episode_steps"]
    listed = ", ".join(f"{name}={value}" for name, value in sorted(arguments.items()))
    return one_line(f"{env['id']} ({listed})" if listed else env["id"])


def _order(method: Method) -> tuple[Any, ...]:
    def rank(name: str, known: Iterable[str]) -> tuple[int, str]:
        names = [*known]
        return (names.index(name) if name in names else len(names), name)

    family = rank(family_of(method.task), ENV_STEPS)
    if method.is_foreign:  # as they were named
        return (*family, method.task, method.agent)
    strategy = (*rank(method.replay, STRATEGIES), _by_numbers(method.label))
    return (*family, method.task, method.agent, strategy, method.name)


def _by_numbers(text: str) -> list[tuple[str, float]]:
    """A key that puts temperature=2.5 before temperature=10."""
    parts = re.findall(r"(\D*)(\d+(?:\.\d+)?)?", text)
    return [(words, float(number or 0)) for words, number in parts]


def _sources(path: Path) -> list[Path]:
    """Method folders and the curves of stores at or below a path."""
    return [*folders_below(path), *sorted(path.glob(f"**/{CURVES_FILE}"))]


def _read_source(source: Path) -> list[Method] | NothingYet:
    try:
        return list(_read_store(source)) if source.name == CURVES_FILE else [_read_run(source)]
    except NothingYet as error:
        return error


def _read_run(folder: Path) -> Method:
    rows, stopped = evaluations_and_stopped(folder)
    method = _make_method(folder.resolve().name, rows, folder / CONFIG, folder)
    if not stopped:
        return method
    return replace(method, record=method.record | {"stopped_seeds": sorted(stopped)})


def evaluation_rows(folder: Path) -> list[Row]:
    """The evaluations of a method folder, each with the diagnostics of the phase before it."""
    return evaluations_and_stopped(folder)[0]


def evaluations_and_stopped(folder: Path) -> tuple[list[Row], set[int]]:
    """The evaluations, and the seeds that were given up, which have none; in one reading."""
    latest: dict[int, Row] = {}
    evaluations: list[Row] = []
    stopped: set[int] = set()
    for part in parts_of(folder):
        for row in read_metrics(part):
            if row["kind"] == "train":
                latest[row["seed"]] = row
            elif row["kind"] == "eval":
                evaluations.append(diagnostics_of(latest.get(row["seed"], {})) | row)
            elif row["kind"] == "stopped":
                stopped.add(row["seed"])
    return [row for row in evaluations if row["seed"] not in stopped], stopped


def diagnostics_of(row: Row) -> Row:
    """The diagnostics of a training row under the names of their columns."""
    found = {name: row[name] for name in PLAIN_DIAGNOSTICS if name in row}
    for metric in LISTED_DIAGNOSTICS:
        if isinstance(values := row.get(metric.name), list):
            found |= zip(metric.columns, values, strict=False)
    return {name: value for name, value in found.items() if type(value) in (int, float)}


def stored_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a store's table, as text that can be read as numbers."""
    rows = []
    try:
        lines = read_lines(path, MAX_TABLE_BYTES, MAX_LINE_BYTES)
        for row in csv.DictReader(line.decode() for line in lines):
            _numbers(row)
            rows.append(row)
    except (Damaged, KeyError, TypeError, ValueError, csv.Error) as error:
        reason = one_line(repr(error), longest=200)
        raise InputError(f"{path} is not a table of evaluations: {reason}.") from None
    return rows


def _read_store(path: Path) -> Iterator[Method]:
    by_method: dict[str, list[Row]] = {}
    for row in stored_rows(path):
        by_method.setdefault(row["method"], []).append(_numbers(row))
    for name, rows in by_method.items():
        record = path.parent / f"{name}.json"
        if not record.is_file():
            raise InputError(f"{path} has rows of {name}, but {record} is missing.")
        yield _make_method(name, rows, record, path.parent)


def _numbers(row: dict[str, str]) -> Row:
    """The columns that are read, as numbers but for the name; an empty one is absent."""
    values: Row = {name: short_int(row[name]) for name in ("seed", "env_steps")}
    values["method"] = row["method"]
    for name in ("return_mean", *DIAGNOSTIC_COLUMNS):
        if row.get(name):
            values[name] = float(row[name])
    return values


def _make_method(name: str, rows: list[Row], record: Path, source: Path) -> Method:
    content = read_config_file(record)
    config = content["config"]
    curves = make_curves(rows, config, name, source)
    grid = rows_by_seed(rows)
    present = {key for row in rows for key in row}
    last = max((row["wall_seconds"] for row in rows if "wall_seconds" in row), default=None)
    return Method(
        curves=replace(curves, env=task_name(config["env"])),
        diagnostics={key: column(grid, key) for key in DIAGNOSTIC_COLUMNS if key in present},
        record={"wall_seconds": last, **content},
        source=source,
    )
