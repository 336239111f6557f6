"""Which checkpoint of a method folder can be taken up, and what is damaged."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lfiw.errors import Damaged, InputError
from lfiw.runs.checkpoint import (
    MANIFEST,
    Checkpoint,
    check_file,
    list_checkpoints,
    load_checkpoint,
    position_of,
    read_manifest,
)
from lfiw.runs.read import LOG, log_lines
from lfiw.runs.rows import parse_row
from lfiw.runs.segments import SEGMENT_ROWS, needed_segments
from lfiw.wording import option

COUNTS = ("env_steps", "updates", "phase_start", "next_snapshot", "log_bytes")
NO_ROWS = hashlib.sha256().hexdigest()


def start_facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """Checkpoint 0: nothing is collected yet, and all else follows from the configuration."""
    return {
        **dict.fromkeys(COUNTS, 0),
        "wall_seconds": 0.0,
        "log_sha256": NO_ROWS,
        "runners": {},
        "segments": {},
        "episodes": None,
        "faults": None,
        "stopped": {},
        "ended": {},
        "best": {},
        "config": dict(config),
    }


def is_last(facts: Mapping[str, Any], env_steps: int) -> bool:
    """Whether a checkpoint leaves nothing to train: it is of the last step, or its runs were ended
    on purpose; and it is not within a phase."""
    ended = facts.get("ended", {})
    nobody_left = bool(ended) and facts["runners"].keys() <= {*ended, *facts["stopped"]}
    return (facts["env_steps"] == env_steps or nobody_left) and facts["episodes"] is None


def is_finished(folder: Path, env_steps: int) -> bool:
    """Whether the newest checkpoint is the last one."""
    try:
        for newest in list_checkpoints(folder)[:1]:
            facts = read_manifest(newest)["facts"]
            check_facts(newest, facts)
            return is_last(facts, env_steps)
    except Damaged:
        pass
    return False


def newest_good(
    folder: Path, capacity: int, team: Sequence[Path] = (), any_log: bool = False
) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that verifies together with the log and the rows that it needs,
    and what is wrong with newer ones. None where none was ever committed: such a run starts
    anew from its config. Runs of a `team` are saved one after the other: after a kill in between,
    the newest that all of them have keeps them in lock-step. With `any_log` the log may be
    damaged: what it says of the past is no part of the training's state."""
    complaints: list[str] = []
    candidates = list_checkpoints(folder)
    held = [{position_of(path) for path in list_checkpoints(member)} for member in team]
    shared = [path for path in candidates if all(position_of(path) in own for own in held)]
    candidates = shared or candidates
    for path in candidates:
        damage = next(damages(folder, path, capacity, any_log), None)
        if damage is None:
            return load_checkpoint(path), complaints
        complaints += [damage] if damage not in complaints else []
    if candidates:
        others = [next(damages(folder, path, capacity, any_log=True), None) for path in candidates]
        if None in others:
            complaints.append(f"{option('allow_inexact')} goes on with what is left of the log.")
        raise InputError(f"{folder} has no intact checkpoint. {' '.join(complaints)}")
    return None, complaints


def damages(folder: Path, path: Path, capacity: int, any_log: bool = False) -> Iterator[str]:
    """A sentence for each damaged file that a checkpoint needs; its ring has `capacity`."""
    try:
        manifest = read_manifest(path)
        facts = manifest["facts"]
        check_facts(path, facts)
    except Damaged as error:
        yield str(error)
        return
    checks: list[Callable[[], object]] = [
        partial(check_file, path / name, expected) for name, expected in manifest["files"].items()
    ]
    if not any_log:
        checks.append(partial(check_log, folder / LOG, facts))
    for seed, rows in facts["segments"].items():
        inside = folder / "ring" / f"seed-{seed}"
        checks += [segment.check for segment in needed_segments(inside, rows, capacity)]
    for check in checks:
        try:
            check()
        except Damaged as error:
            yield str(error)


def check_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Facts whose hash is right can still be nonsense that somebody made."""
    try:
        counts = [facts[name] for name in COUNTS]
        # Older checkpoints know of no runs that were ended, and of no best policies.
        ended, best = facts.get("ended", {}), facts.get("best", {})
        gone = facts["stopped"].keys() | ended.keys()
        for seed, rows in facts["segments"].items():
            counts += [int(seed), rows["row_bytes"], rows["num_rows"]]
            whole = rows["num_rows"] == facts["env_steps"] or seed in gone
            _expect(whole, "its rows are not its steps")
            _expect(len(rows["sha256"]) == rows["num_rows"] // SEGMENT_ROWS + 1, "hashes miss")
        for runner in facts["runners"].values():
            counts += [runner["env_steps"], runner["episode_seed"]]
            _expect(math.isfinite(runner["total_reward"]), "a return is not finite")
        _expect(all(type(n) is int and 0 <= n < 2**53 for n in counts), "counts are no counts")
        _expect(math.isfinite(facts["wall_seconds"]), "its time is not finite")
        seeds = facts["segments"].keys()
        _expect(facts["runners"].keys() == seeds >= gone | best.keys(), "its seeds differ")
        _expect(all(map(math.isfinite, best.values())), "a best return is not finite")
        _expect(isinstance(facts["config"]["config"], dict), "it has no config")
        phase = (facts["episodes"], facts["faults"])
        between = phase == (None, None)
        _expect(between or all(len(own) == len(seeds) for own in phase), "its phase is none")
        for episodes in facts["episodes"] or ():
            for total_reward, length in episodes:
                _expect(math.isfinite(total_reward) and length > 0, "an episode is none")
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise Damaged(
            f"{path / MANIFEST} is not of a checkpoint that this version can read: {error}."
        ) from None


def _expect(sound: bool, complaint: str) -> None:
    if not sound:
        raise ValueError(complaint)


def check_log(path: Path, facts: Mapping[str, Any]) -> None:
    """The rows that were there when the checkpoint was made."""
    size = facts["log_bytes"]
    if size == 0:
        return
    actual, left = hashlib.sha256(), size
    rows = True
    for line in log_lines(path):
        if left <= 0:
            break
        part = line[:left]
        actual.update(part)
        rows = rows and parse_row(part) is not None
        left -= len(part)
    if left > 0:
        raise Damaged(f"{path} is too short.")
    if actual.hexdigest() != facts["log_sha256"]:
        raise Damaged(f"{path} is damaged: its hash does not match.")
    if not rows:
        raise Damaged(f"{path} has lines that are no rows of a log.")
