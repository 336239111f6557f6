"""Checking every file of a method folder without running anything of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lfiw.errors import Damaged, InputError
from lfiw.runs.checkpoint import list_checkpoints, read_manifest
from lfiw.runs.config_file import config_is_intact, read_config
from lfiw.runs.files import read_arrays, refuse_links
from lfiw.runs.layout import CONFIG, policy_file
from lfiw.runs.policies import check_policy
from lfiw.runs.read import evaluated_up_to, stopped_seeds
from lfiw.runs.recovery import damages, is_last
from lfiw.runs.seal import SEAL, broken_seals, is_late_seal, is_leftover, is_own_seal, is_sealed


def verify_run(folder: Path) -> tuple[list[str], str]:
    """A sentence for each damaged file, and one about what a resume would do. Read again where a
    training replaced its checkpoints meanwhile."""
    while True:
        before = (list_checkpoints(folder), is_sealed(folder))
        try:
            found = _check_files(folder)
        except (FileNotFoundError, Damaged):
            if (list_checkpoints(folder), is_sealed(folder)) == before:
                raise
        else:
            if (list_checkpoints(folder), is_sealed(folder)) == before:
                return found


def _check_files(folder: Path) -> tuple[list[str], str]:
    try:
        refuse_links(folder)
        content = read_config(folder)
    except InputError as error:
        return [str(error)], f"{folder} cannot be resumed."
    problems = [] if config_is_intact(folder, content) else [_changed(folder)]
    capacity = ring_capacity(content["config"])
    by_checkpoint = {
        path: list(damages(folder, path, capacity)) for path in list_checkpoints(folder)
    }
    for found in by_checkpoint.values():
        problems += [problem for problem in found if problem not in problems]
    problems += damaged_arrays(folder, content["config"])
    if is_sealed(folder):
        for path, problem in broken_seals(folder):
            problems += [] if any(str(path) in known for known in problems) else [problem]
    intact = next((path for path, found in by_checkpoint.items() if not found), None)
    if intact is not None:
        facts = read_manifest(intact)["facts"]
        where = f"{folder} resumes from {intact.name}, at environment step {facts['env_steps']}"
        if not is_last(facts, content["config"].get("env_steps")):
            return problems, f"{where}."
        return problems, f"{where}, its last; {_seal_note(folder, problems)}."
    if by_checkpoint:
        return problems, f"{folder} cannot be resumed: it has no intact checkpoint."
    return problems, f"{folder} has no checkpoint; it starts anew from {CONFIG}."


def _seal_note(folder: Path, problems: list[str]) -> str:
    if not is_sealed(folder):
        return f"it has no {SEAL}, so files that were exchanged or added later are not seen"
    if problems:
        return f"it is not as {SEAL} says"
    if is_own_seal(folder):
        return "all files are as your training left them"
    if is_late_seal(folder):
        return f"all files are as they were when a resume wrote {SEAL}, after the training's end"
    return f"all files are as {SEAL} says, which somebody else, or you elsewhere, has written"


def ring_capacity(config: dict[str, Any]) -> int:
    """As `TrainConfig.capacity`, from JSON of which nothing is sure; 1 asks for the least."""
    sizes = [config.get("buffer_size"), config.get("env_steps")]
    return min([size for size in sizes if type(size) is int and size > 0], default=1)


def damaged_arrays(folder: Path, config: dict[str, Any]) -> Iterator[str]:
    """Policies and snapshots carry their own hashes."""
    stopped = stopped_seeds(folder)  # perhaps before they had one
    policies = {policy_file(folder, seed): seed for seed in config["seeds"]}
    best = {policy_file(folder, seed, "best") for seed in config["seeds"]}
    found = {*folder.glob("policies/*"), *folder.glob("snapshots/*/*")}
    written = {path for path in found if not is_leftover(path, folder)}
    # Those of all seeds are written before the first evaluation is logged.
    if any(evaluated_up_to(folder).values()):
        written |= {path for path, seed in policies.items() if seed not in stopped}
    for path in sorted(written):
        try:
            arrays = read_arrays(path, hash_required=True)
            if path in policies or path in best:
                check_policy(arrays)
        except Damaged as error:
            yield str(error)
        except (KeyError, ValueError, IndexError, StopIteration) as error:
            yield f"{path} is not a policy of lfiw: {error}"


def _changed(folder: Path) -> str:
    return f"{folder / CONFIG} is damaged or was changed: its hash does not match."
