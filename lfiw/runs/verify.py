"""Checking every file of a run folder without running anything of it. No jax here."""

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
from lfiw.runs.read import stopped_seeds
from lfiw.runs.recovery import damages


def verify_run(run: Path) -> tuple[list[str], str]:
    """A sentence for each damaged file, and one about what a resume would do. Read again where a
    training replaced its checkpoints meanwhile."""
    while True:
        before = list_checkpoints(run)
        try:
            found = _check_files(run)
        except (FileNotFoundError, Damaged):
            if list_checkpoints(run) == before:
                raise
        else:
            if list_checkpoints(run) == before:
                return found


def _check_files(run: Path) -> tuple[list[str], str]:
    try:
        refuse_links(run)
        content = read_config(run)
    except InputError as error:
        return [str(error)], f"{run} cannot be resumed."
    problems = [] if config_is_intact(run, content) else [_changed(run)]
    capacity = ring_capacity(content["config"])
    by_checkpoint = {path: list(damages(run, path, capacity)) for path in list_checkpoints(run)}
    for found in by_checkpoint.values():
        problems += [problem for problem in found if problem not in problems]
    problems += damaged_arrays(run, content["config"])
    intact = next((path for path, found in by_checkpoint.items() if not found), None)
    if intact is not None:
        steps = read_manifest(intact)["facts"]["env_steps"]
        return problems, f"{run} resumes from {intact.name}, at environment step {steps}."
    if by_checkpoint:
        return problems, f"{run} cannot be resumed: it has no intact checkpoint."
    return problems, f"{run} has no checkpoint; it starts anew from {CONFIG}."


def ring_capacity(config: dict[str, Any]) -> int:
    """As `TrainConfig.capacity`, from JSON of which nothing is sure; 1 asks for the least."""
    sizes = [config.get("buffer_size"), config.get("env_steps")]
    return min([size for size in sizes if type(size) is int and size > 0], default=1)


def damaged_arrays(run: Path, config: dict[str, Any]) -> Iterator[str]:
    """Policies and snapshots carry their own hashes."""
    stopped = stopped_seeds(run)  # perhaps before they had one
    policies = {policy_file(run, seed): seed for seed in config["seeds"]}
    written = {*run.glob("policies/*"), *run.glob("snapshots/*/*")}
    if any(run.glob("policies/*")):  # not there before the first evaluation
        written |= {path for path, seed in policies.items() if seed not in stopped}
    for path in sorted(written):
        try:
            arrays = read_arrays(path, hash_required=True)
            if path in policies:
                check_policy(arrays)
        except Damaged as error:
            yield str(error)
        except (KeyError, ValueError, IndexError, StopIteration) as error:
            yield f"{path} is not a policy of lfiw: {error}"


def _changed(run: Path) -> str:
    return f"{run / CONFIG} is damaged or was changed: its hash does not match."
