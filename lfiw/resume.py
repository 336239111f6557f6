"""Taking up run folders where their newest intact checkpoint left them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from lfiw.checkpoint import newest_good
from lfiw.config import TrainConfig, check, config_from_json, config_to_json
from lfiw.devices import choose_devices, hardware, prepare_jax
from lfiw.errors import InputError
from lfiw.host import versions
from lfiw.runlog import find_runs, read_config, write_json
from lfiw.training import Job, Run, run_jobs


def resume(
    paths: Sequence[str | Path],
    *,
    env_steps: int | None = None,
    allow_inexact: bool = False,
    workers: int | None = None,
    devices: str | None = None,
    quiet: bool = False,
) -> list[Run]:
    """Go on with every run folder at or below the paths; `env_steps` extends them."""
    console = Console(quiet=quiet, stderr=True)
    here = conditions(devices)
    jobs = []
    for folder in find_runs(paths):
        content = read_config(folder)
        config = extended(config_from_json(content["config"]), env_steps)
        jobs.append(resumed_job(folder, config, None if allow_inexact else here, console))
        if env_steps is not None:
            write_json(folder / "config.json", {**content, "config": config_to_json(config)})
    return run_jobs(jobs, workers, devices, console)


def conditions(devices: str | None) -> dict[str, Any]:
    """What must be the same for a resume to be exact."""
    prepare_jax()
    # Only what a folder recorded is compared: of EnvPool, where it was used.
    return {"versions": versions("envpool"), "hardware": hardware(choose_devices(devices))}


def resumed_job(
    folder: Path, config: TrainConfig, here: dict[str, Any] | None, console: Console
) -> Job:
    """Take up one run folder; without `here` other conditions than those then are allowed."""
    if here is not None:
        refuse_differences(folder, read_config(folder), here)
    check(config)
    checkpoint, complaints = newest_good(folder)
    for complaint in complaints:
        console.print(f"Note: {complaint} Going back to the checkpoint before.")
    if checkpoint is not None and checkpoint.facts["env_steps"] > config.env_steps:
        raise InputError(f"{folder} has already made {checkpoint.facts['env_steps']} steps.")
    return Job(config, folder, checkpoint, resumed=True, allow_inexact=here is None)


def extended(config: TrainConfig, env_steps: int | None) -> TrainConfig:
    """More steps; annealed settings stay at their end values."""
    if env_steps is None or env_steps == config.env_steps:
        return config
    if env_steps < config.env_steps:
        raise InputError(f"--env-steps {env_steps} is less than the run's {config.env_steps}.")
    longer = dataclasses.replace(
        config, env_steps=env_steps, schedule_env_steps=config.schedule_horizon
    )
    uses_tree = "per" in (config.replay.name, getattr(config.replay, "sampling", ""))
    if uses_tree and longer.capacity != config.capacity:
        raise InputError(
            f"A run with prioritised replay cannot be extended beyond {config.capacity} steps: its "
            f"ring has that size (buffer_size and env_steps when it started)."
        )
    return longer


def refuse_differences(folder: Path, content: dict[str, Any], here: dict[str, Any]) -> None:
    """An exact resume needs the same versions and hardware."""
    differences = [
        f"{name} {then} then, {here[part].get(name)} now"
        for part in here
        for name, then in content.get(part, {}).items()
        if here[part].get(name) != then
    ]
    if differences:
        raise InputError(
            f"{folder} was trained under other conditions ({'; '.join(differences)}), so the rest "
            f"would not be the same bits (--allow-inexact goes on all the same)."
        )
