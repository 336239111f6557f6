"""Adding runs to the store of results, some methods and tasks at a time.

`lfiw.results.own` says what a store holds. A method's seeds are its cells: one that is added
again is replaced, all others stay.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lfiw.errors import InputError
from lfiw.older import modern
from lfiw.results.method import task_name
from lfiw.results.own import CURVES_FILE, DIAGNOSTIC_COLUMNS, evaluation_rows, stored_rows
from lfiw.runs.config_file import read_config, read_config_file
from lfiw.runs.files import make_parent, write_json, write_whole
from lfiw.runs.layout import find_folders, parts_of, safe_name
from lfiw.runs.metrics import EVALUATION
from lfiw.runs.read import evaluated_up_to, live_seeds, read_metrics, stopped_seeds
from lfiw.wording import one_line

COLUMNS = (
    *("env", "method", "seed", "env_steps"),
    *(metric.name for metric in EVALUATION),
    *DIAGNOSTIC_COLUMNS,
)
# What is kept of a method folder's config.json beside the configuration.
RECORDED = ("updates_in_call", "placement", "team", "versions", "hardware")
# Seeds of one method may be evaluated in different ways; each keeps how it was.
EVALUATION_SETTINGS = ("eval_every_env_steps", "eval_episodes", "eval_starts")

StoredRows = list[dict[str, Any]]  # of curves.csv; their numbers are text once stored


def add_runs(
    paths: Sequence[str | Path],
    store: Path,
    commit: str | None = None,
    unfinished: bool = False,
) -> list[Path]:
    """Merge finished method folders into the store, with `unfinished` also those that were cut
    short; returns the files written. Nothing is written unless all can be added."""
    sources = find_folders(paths)
    additions = [read_addition(source, commit, unfinished) for source in sources]
    tables: dict[Path, StoredRows] = {}
    records: dict[Path, dict[str, Any]] = {}
    brought: dict[tuple[Path, str], Path] = {}
    for source, (record, rows) in zip(sources, additions, strict=True):
        method = rows[0]["method"]
        folder = store / safe_name(task_name(record["config"]["env"]))
        path = folder / f"{method}.json"
        stored = folder / CURVES_FILE
        table = tables.setdefault(folder, stored_rows(stored) if stored.exists() else [])
        seeds = {str(row["seed"]) for row in rows}
        for seed in sorted(seeds):
            if (other := brought.setdefault((path, seed), source)) is not source:
                raise InputError(
                    f"{other} and {source} both have seed {seed} of {method}; name only one of "
                    "them, or train with a --label."
                )
        known = records.get(path) or (read_config_file(path) if path.exists() else None)
        kept = {row["seed"] for row in table if row["method"] == method} - seeds
        records[path] = merge_records(path, known, record, {int(seed) for seed in kept})
        tables[folder] = [
            row for row in table if row["method"] != method or row["seed"] in kept
        ] + [{name: text(value) for name, value in row.items()} for row in rows]
    for folder, table in tables.items():
        make_parent(folder / CURVES_FILE)
        write_table(folder, table)
    for path, record in records.items():
        write_json(path, record)
    return [*(folder / CURVES_FILE for folder in tables), *records]


def read_addition(
    folder: Path, commit: str | None, unfinished: bool = False
) -> tuple[dict[str, Any], StoredRows]:
    """What a method folder contributes: its record and its rows."""
    content = read_config(folder)
    config = content["config"]
    names = {"env": config["env"]["id"], "method": one_line(folder.resolve().name)}
    evaluations = [row | names for row in evaluation_rows(folder)]
    rows = [{name: row.get(name) for name in COLUMNS} for row in evaluations]
    live = live_seeds(folder)
    if not live:
        raise InputError(f"All seeds of {folder} were stopped for numbers that were not finite.")
    total = config.get("env_steps") or 1
    needed = 1 if unfinished else total
    reached = {
        seed: steps for part in parts_of(folder) for seed, steps in evaluated_up_to(part).items()
    }
    evaluated = {row["seed"] for row in rows}  # and not given up at every evaluation
    for seed in live:
        last = reached[seed] if seed in evaluated else 0
        if last < needed:
            raise InputError(
                f"{folder} is not finished: seed {seed} was evaluated up to {last} of "
                f"{total} environment steps. --unfinished adds what was evaluated."
            )
    times = [
        [row["wall_seconds"] for row in read_metrics(part) if row.get("wall_seconds") is not None]
        for part in parts_of(folder)  # which were trained one after another
    ]
    record = {
        "config": {**config, "seeds": live},
        **{name: content[name] for name in RECORDED if name in content},
        "command": command_text(content.get("command")),
        "commit": commit or content.get("commit"),
        "date": content.get("started"),
        "wall_seconds": sum(map(max, filter(None, times))) or None,
    }
    stopped = sorted(stopped_seeds(folder))
    return record | ({"stopped_seeds": stopped} if stopped else {}), rows


def command_text(argv: Sequence[str] | None) -> str | None:
    """As a user types it: the place of the program on that machine says nothing."""
    if not argv:
        return None
    program = Path(str(argv[0])).name
    return shlex.join(["lfiw" if program == "__main__.py" else program, *map(str, argv[1:])])


def merge_records(
    path: Path, known: dict[str, Any] | None, new: dict[str, Any], kept_seeds: set[int]
) -> dict[str, Any]:
    """The record of a method whose other seeds, run earlier, stay in the table."""
    if known is None or not kept_seeds:
        return new
    then, now = comparable(known["config"]), comparable(new["config"])
    differences = [name for name in now if now[name] != then.get(name)]
    if differences:
        raise InputError(
            f"{path} has seeds {sorted(kept_seeds)} with other settings "
            f"({', '.join(differences)}); add all seeds anew, or train with a --label."
        )
    earlier = [
        {**run, "seeds": sorted(kept_seeds & set(run["seeds"]))}
        # Seeds that joined in an older version had been evaluated as all the others.
        | {"evaluation": run.get("evaluation", evaluation_of(known["config"]))}
        for run in [
            {name: value for name, value in known.items() if name not in ("config", "earlier_runs")}
            | {"seeds": sorted(set(known["config"]["seeds"]) - earlier_seeds(known))},
            *known.get("earlier_runs", ()),
        ]
    ]
    seeds = sorted(kept_seeds | set(new["config"]["seeds"]))
    merged = {**new, "config": {**new["config"], "seeds": seeds}}
    return merged | {"earlier_runs": [run for run in earlier if run["seeds"]]}


def comparable(config: dict[str, Any]) -> dict[str, Any]:
    """What seeds of one method must share."""
    horizon = config.get("schedule_env_steps") or config.get("env_steps")
    own = ("seeds", "checkpoint", *EVALUATION_SETTINGS)
    settings = {name: value for name, value in modern(config).items() if name not in own}
    env = (task_name(config["env"]), bool(config["env"].get("normalize_observations")))
    return settings | {"schedule_env_steps": horizon, "env": env}


def evaluation_of(config: dict[str, Any]) -> dict[str, Any]:
    """How seeds were evaluated."""
    settings = modern(config)
    return {name: settings[name] for name in EVALUATION_SETTINGS if name in settings}


def earlier_seeds(record: dict[str, Any]) -> set[int]:
    return {seed for run in record.get("earlier_runs", ()) for seed in run["seeds"]}


def text(value: Any) -> str:
    return "" if value is None else str(value)


def place_in_table(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return (row["method"], int(row["env_steps"]), int(row["seed"]))


def write_table(folder: Path, table: StoredRows) -> None:
    content = io.StringIO()
    writer = csv.DictWriter(content, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(table, key=place_in_table))
    write_whole(folder / CURVES_FILE, content.getvalue().encode(errors="replace"))
