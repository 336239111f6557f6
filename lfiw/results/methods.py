"""Methods read back, from whatever holds them: method folders, stored results, and logs of other
libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from lfiw.errors import InputError, NothingYet
from lfiw.results.foreign import Run, numbered, read_runs, split_name
from lfiw.results.method import Method, at, cut, order_of
from lfiw.results.own import read_source, sources_below
from lfiw.results.processes import map_in_processes
from lfiw.results.shared_steps import common_steps, make_foreign, remarks
from lfiw.wording import nearest, one_line


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
    ordered = sorted(together, key=order_of)
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
            ours = [] if method else sources_below(path)
            sources |= {source.resolve(): source for source in ours}
            if not ours:
                logs.setdefault(path.resolve(), (method, path))
    return sources, list(logs.values())


def _read_own(sources: list[Path], missing: list[NothingYet]) -> dict[tuple[str, str], Method]:
    """By task and name; what is said of sources without an evaluation is added to the list."""
    found: dict[tuple[str, str], Method] = {}
    for methods in map_in_processes(read_source, sources):
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
