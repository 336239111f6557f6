"""Taking up method folders where their newest intact checkpoint left them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from rich.console import Console

from lfiw.errors import InputError
from lfiw.learning.config import TrainConfig, check, config_from_json
from lfiw.machine import versions
from lfiw.runs.checkpoint import Checkpoint
from lfiw.runs.config_file import config_is_intact, read_config, seeds_of
from lfiw.runs.files import refuse_links
from lfiw.runs.layout import (
    CONFIG,
    added_folder,
    find_folders,
    folder_of,
    parts_of,
    safe_name,
)
from lfiw.runs.lock import locked
from lfiw.runs.recovery import is_last, newest_good
from lfiw.runs.seal import refuse_exchanged
from lfiw.runs.trust import Trust, late_signature, trusted_config
from lfiw.settings import conform, override, parts, to_json, walk
from lfiw.tracking import Trackers, tracker_names
from lfiw.training.callback import OnEvaluation
from lfiw.training.devices import choose_devices, hardware, prepare_jax
from lfiw.training.display import message_console
from lfiw.training.folder import Training, finish_folder
from lfiw.training.jobs import Job
from lfiw.training.start import run_jobs
from lfiw.wording import option, option_name

# What a resume may change: how far a run goes, and when it is saved.
CHANGEABLE = ("env_steps", "schedule_env_steps", "stop_at_return", "checkpoint")
# What a folder that is taken up goes on with, whatever would be the default by now.
KEPT_BY_THE_FOLDER = ("checkpoint.", "eval_starts")


def resume(
    folder: str | PathLike[str],
    *,
    env_steps: int | None = None,
    seeds: Sequence[int] = (),
    stop_at_return: float | None = None,
    allow_inexact: bool = False,
    trust_env: Trust = False,
    workers: int | None = None,
    devices: str | None = None,
    quiet: bool = False,
    on_evaluation: OnEvaluation | None = None,
    track: Trackers = (),
) -> Training:
    """Go on with one method where it was stopped or killed, to the same bits on the same machine;
    a finished one is left as it is.

    Args:
        folder: A method folder, or what `lfiw.train` returned.
        env_steps: Extends its runs to so many steps.
        seeds: Those that it does not have yet are added.
        stop_at_return: Changes what return ends a run; those that have ended stay so.
        allow_inexact: Go on although versions, hardware or settings differ.
        trust_env: Make the environment of a folder that somebody else may have made.
        workers: As for `lfiw.train`, and so are `devices` and `quiet`.
        on_evaluation: As for `lfiw.train`, and so is `track`; nobody is told again of what was
            saved.

    >>> training = lfiw.resume("runs/Pendulum-v1/sac-lfiw", env_steps=40_000)
    """
    found = find_folders([folder_of(folder)])
    if len(found) > 1:
        raise InputError(
            f"{folder_of(folder)} holds {len(found)} method folders: name one of them, or go on "
            f"with all (lfiw.resume_all)."
        )
    return resume_all(
        found,
        env_steps=env_steps,
        seeds=seeds,
        stop_at_return=stop_at_return,
        allow_inexact=allow_inexact,
        trust_env=trust_env,
        workers=workers,
        devices=devices,
        quiet=quiet,
        on_evaluation=on_evaluation,
        track=track,
    )[0]


def resume_all(
    paths: Sequence[str | PathLike[str]],
    *,
    env_steps: int | None = None,
    seeds: Sequence[int] = (),
    stop_at_return: float | None = None,
    allow_inexact: bool = False,
    trust_env: Trust = False,
    workers: int | None = None,
    devices: str | None = None,
    quiet: bool = False,
    on_evaluation: OnEvaluation | None = None,
    track: Trackers = (),
) -> list[Training]:
    """Go on with every method folder at or below the paths, side by side; the rest as for
    `resume`."""
    if isinstance(paths, str | PathLike):
        raise InputError(f"lfiw.resume_all takes a list of folders, not {folder_of(paths)}.")
    names = tracker_names(track)
    env_steps = conform("env_steps", env_steps, int | None)
    seeds = conform("seeds", seeds, tuple[int, ...])
    changes = {"env_steps": env_steps, "stop_at_return": stop_at_return}
    console = message_console(quiet)
    here = conditions(devices)
    jobs = []
    folders = find_folders([folder_of(path) for path in paths])
    with ExitStack() as locks:
        for folder in folders:
            refuse_links(folder)
            jobs += [
                take_up(part, here, locks, console, changes, allow_inexact, trust_env)
                for part in parts_of(folder)
            ]
            config = next(job.config for job in jobs if job.folder == folder)
            if new := tuple(seed for seed in seeds if seed not in seeds_of(folder)):
                added = dataclasses.replace(config, seeds=new)
                check(added)
                jobs.append(Job(added, added_folder(folder, new)))
        unfinished = []
        for job in jobs:
            if job.checkpoint and is_last(job.checkpoint.facts, job.config.env_steps):
                finish_folder(job)
            else:
                unfinished.append(job)
        if unfinished:
            run_jobs(unfinished, workers, devices, console, on_evaluation, track=names)
    configs = {job.folder: job.config for job in jobs}
    return [Training(folder, configs[folder]) for folder in folders]


def take_up(
    folder: Path,
    here: dict[str, Any],
    locks: ExitStack,
    console: Console,
    changes: Mapping[str, Any] | None = None,
    allow_inexact: bool = False,
    trust_env: Trust = False,
) -> Job:
    """The job of going on with one folder, which stays locked as long as `locks` is open."""
    locks.enter_context(locked(folder))
    content = trusted_config(folder, trust_env)
    stored = config_from_json(content["config"])
    check(stored)
    team = team_of(folder, content)
    checkpoint, complaints = newest_good(folder, stored.capacity, team, any_log=allow_inexact)
    if not allow_inexact:
        refuse_differences(folder, content, here, checkpoint)
    for complaint in complaints:
        console.print(f"Note: {complaint} Going back to the checkpoint before.", soft_wrap=True)
    if here["hardware"]["platform"] != "cpu" and not stored.deterministic:
        console.print(
            f"Note: {folder} goes on inexactly: it is not {option('deterministic')} on a GPU."
        )
    config = extended(stored, **changes or {})
    check(config)
    if checkpoint is not None and checkpoint.facts["env_steps"] > config.env_steps:
        raise InputError(f"{folder} has already made {checkpoint.facts['env_steps']} steps.")
    goes_on = checkpoint is None or not is_last(checkpoint.facts, config.env_steps)
    if goes_on and not allow_inexact:
        refuse_exchanged(folder)
    return Job(
        config,
        folder,
        checkpoint,
        resumed=True,
        allow_inexact=allow_inexact,
        signature=late_signature(content, trust_env),
    )


def team_of(folder: Path, content: dict[str, Any]) -> list[Path]:
    """The folders that were trained in lock-step with this one, itself included."""
    names = content.get("team")
    names = names if isinstance(names, list) else []
    return [folder.parent / safe_name(name) for name in names if isinstance(name, str)]


def refuse_other_settings(training: Training) -> None:
    """A folder that is taken up, or taken as finished, must hold the training that is meant."""
    there = settings_of(config_from_json(read_config(training.folder)["config"]))
    here = settings_of(training.config)
    differences = [
        f"{name} {there.get(name)} there, {here.get(name)} here"
        for name in dict.fromkeys([*here, *there])
        if there.get(name) != here.get(name) and not name.startswith(KEPT_BY_THE_FOLDER)
    ]
    if differences:
        raise InputError(
            f"{training.folder} holds another training ({'; '.join(differences)}); choose another "
            f"{option_name('out')}."
        )


def settings_of(config: TrainConfig) -> dict[str, Any]:
    """All settings by dotted name, and the names of parts."""
    chosen = {name: kind for name, kind, *_ in parts(config)}
    return chosen | {name: value for name, _, value in walk(config)}


def conditions(devices: str | None) -> dict[str, Any]:
    """What must be the same for a resume to be exact."""
    prepare_jax()
    # Only what a folder recorded is compared: of EnvPool, where it was used.
    return {"versions": versions("envpool"), "hardware": hardware(choose_devices(devices))}


def extended(
    config: TrainConfig, env_steps: int | None = None, stop_at_return: float | None = None
) -> TrainConfig:
    """More steps, where annealed settings stay at their end values, or until another return."""
    if stop_at_return is not None:
        config = override(config, "stop_at_return", stop_at_return)
    if env_steps is None or env_steps == config.env_steps:
        return config
    if env_steps < config.env_steps:
        raise InputError(
            f"{option('env_steps', env_steps)} is less than the run's {config.env_steps}."
        )
    return dataclasses.replace(
        config, env_steps=env_steps, schedule_env_steps=config.schedule_horizon
    )


def refuse_differences(
    folder: Path,
    content: dict[str, Any],
    here: dict[str, Any],
    checkpoint: Checkpoint | None = None,
) -> None:
    """An exact resume needs the same versions, hardware and settings."""
    pairs: dict[str, tuple[Any, Any]] = {}
    for part, now in here.items():
        then = content.get(part)
        if isinstance(then, dict):
            then = {name: then[name] for name in then if decides_bits(name, here)}
            # Only what was recorded is compared: of EnvPool, where it was used.
            now = {name: now.get(name) for name in then}
        pairs[part] = then, now
    if checkpoint is not None:
        # As this version reads them: an older one may have stored fewer settings.
        saved = checkpoint.facts["config"]["config"]
        pairs["config"] = (
            to_json(config_from_json(saved)),
            to_json(config_from_json(content["config"])),
        )
    differences = [
        difference
        for part, (then, now) in pairs.items()
        for difference in differing(then, now, f"{part}.")
    ]
    if differences:
        raise InputError(
            f"{folder} was trained under other conditions ({'; '.join(differences)}), so the rest "
            f"would not be the same bits ({option('allow_inexact')} goes on all the same)."
        )
    if not config_is_intact(folder, content):
        raise InputError(
            f"{folder / CONFIG} is damaged: its hash does not match "
            f"({option('allow_inexact')} goes on all the same)."
        )


def decides_bits(name: str, here: dict[str, Any]) -> bool:
    """Cores only share out the work; and on a CPU each run is a program of its own, whatever the
    number of devices (`prepare_jax`)."""
    on_cpu = here["hardware"]["platform"] == "cpu"
    return name != "cores" and not (on_cpu and name == "num_devices")


def differing(then: Any, now: Any, prefix: str = "") -> list[str]:
    """`NAME OLD then, NEW now` for every entry of nested objects that differs."""
    if not (isinstance(then, dict) and isinstance(now, dict)):
        return [] if then == now else [f"{prefix[:-1]} {then} then, {now} now"]
    return [
        difference
        for name in dict.fromkeys([*then, *now])
        if prefix + name not in {f"config.{key}" for key in CHANGEABLE}
        for difference in differing(then.get(name), now.get(name), f"{prefix}{name}.")
    ]
