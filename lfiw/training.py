"""Training methods from their configs: check, lay out the folders, train side by side."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from lfiw.checkpoint import (
    LOCK,
    checkpoint_name,
    locked,
    remove_newer,
    save_checkpoint,
)
from lfiw.collector import probe_all
from lfiw.config import TrainConfig, check, config_to_json, make_config, warnings
from lfiw.config_file import read_config, write_config
from lfiw.devices import (
    check_memory,
    choose_devices,
    devices_of_teams,
    hardware,
    prepare_jax,
    turns_of_teams,
)
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.files import sync
from lfiw.group import place_runs
from lfiw.host import free_disk, size_text, source_commit, usable_cores, versions
from lfiw.jobs import Job, make_teams
from lfiw.layout import run_folder, short_names
from lfiw.learner import state_bytes
from lfiw.member import Member
from lfiw.recovery import start_facts
from lfiw.runlog import Row, read_evaluations
from lfiw.settings import conformed
from lfiw.side_by_side import train_side_by_side
from lfiw.trainer import Trainer


@dataclass(frozen=True)
class Run(os.PathLike[str]):
    """A finished run folder."""

    folder: Path
    config: TrainConfig

    def __fspath__(self) -> str:
        return str(self.folder)

    def evaluations(self) -> list[Row]:
        return read_evaluations(self.folder)


def train(
    env: str | EnvConfig | TrainConfig,
    agent: Any = "sac",
    replay: Any = "lfiw",
    *,
    preset: str = "default",
    out: str | Path = "runs",
    label: str = "",
    workers: int | None = None,
    devices: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Train all seeds of one method; `agent` and `replay` are names or their configs.

    >>> run = lfiw.train("Pendulum-v1", "sac", "lfiw", seeds=(0, 1), env_steps=20_000)
    >>> policy = lfiw.load_policy(run, seed=0)
    """
    if isinstance(env, TrainConfig):
        if settings or (agent, replay, preset) != ("sac", "lfiw", "default"):
            raise InputError("A TrainConfig says all by itself: change its settings there.")
        config = env
    else:
        config = make_config(env, agent, replay, preset, **settings)
    runs = train_all([config], out=out, label=label, workers=workers, devices=devices, quiet=quiet)
    return runs[0]


def train_all(
    configs: Sequence[TrainConfig],
    *,
    out: str | Path = "runs",
    label: str = "",
    workers: int | None = None,
    devices: str | None = None,
    quiet: bool = False,
) -> list[Run]:
    """Train several methods side by side; nothing is written unless all can start."""
    if not configs:
        raise InputError("There is nothing to train.")
    configs = [conformed(config) for config in configs]
    for config in configs:
        check(config)
    folders = [run_folder(out, config.env.id, config.method, label) for config in configs]
    _refuse_clashes(folders)
    jobs = [Job(config, folder) for config, folder in zip(configs, folders, strict=True)]
    return run_jobs(jobs, workers, devices, Console(quiet=quiet, stderr=True, markup=False))


def run_jobs(
    jobs: Sequence[Job], workers: int | None, devices: str | None, console: Console
) -> list[Run]:
    """Check that all jobs can start, then train them side by side."""
    if workers is not None and workers < 0:
        raise InputError(f"workers must be at least 0, not {workers}.")
    say = partial(console.print, highlight=False, soft_wrap=True)
    probed = probe_all([job.config.env for job in jobs], in_process=workers == 0)
    prepare_jax()
    chosen = choose_devices(devices)
    needed = sum(
        len(job.config.seeds) * state_bytes(job.config, spec)
        for job, (spec, _) in zip(jobs, probed, strict=True)
    )
    say(check_memory(needed, chosen))
    # The newest rows and the two checkpoints that are kept take as much as the state does.
    check_disk(needed, [job.folder for job in jobs])
    for warning in dict.fromkeys(text for job in jobs for text in warnings(job.config)):
        say(f"Note: {warning}")
    names = short_names([job.folder for job in jobs])
    members = {
        job.folder: Member(job.config, spec, scale, job.folder, name)
        for job, (spec, scale), name in zip(jobs, probed, names, strict=True)
    }
    teams = make_teams(jobs, chosen)
    placed = devices_of_teams(len(teams), chosen)
    trainers = [
        Trainer([members[job.folder] for job in team], devices, turn)
        for team, devices, turn in zip(teams, placed, turns_of_teams(placed), strict=True)
    ]
    with ExitStack() as locks:
        for team, trainer in zip(teams, trainers, strict=True):
            for job in team:
                if job.resumed:
                    _take_up(job)
                else:
                    _create(job, trainer, locks)
        num_workers = usable_cores() if workers is None else workers
        train_side_by_side(list(zip(teams, trainers, strict=True)), num_workers, console)
    return [Run(job.folder, job.config) for job in jobs]


def check_disk(needed: int, folders: Sequence[Path]) -> None:
    """Refuse what would fill the disk in the middle of training."""
    free = min(free_disk(folder) for folder in folders)
    if needed > free:
        raise InputError(
            f"This cannot fit on the disk: {size_text(needed)} needed, {size_text(free)} free."
        )


def refuse_twins(folders: Sequence[Path]) -> None:
    for folder in folders:
        if folders.count(folder) > 1:
            raise InputError(f"Two of the methods would be written to {folder}.")


def _refuse_clashes(folders: Sequence[Path]) -> None:
    refuse_twins(folders)
    for folder in folders:
        if folder.exists() and not _is_free(folder):
            raise InputError(
                f"{folder} already holds a run; choose another --out or --label, or go on with it "
                f"(lfiw resume)."
            )


def _is_free(folder: Path) -> bool:
    """Empty, or left by a start that was killed before anything was decided."""
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= {LOCK, "config.tmp"}


def _create(job: Job, trainer: Trainer, locks: ExitStack) -> None:
    """The folder, held by this process, with everything that decides the bits of its runs and
    checkpoint 0: all of it is there before anything is compiled."""
    folder, config = job.folder, job.config
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sync(folder.parent)
        locks.enter_context(locked(folder))
        _refuse_clashes([folder])  # another process may have been quicker
        content = {
            "config": config_to_json(config),
            "updates_in_call": trainer.call_updates,
            "placement": [
                {"device": str(shard.device), "seeds": list(config.seeds[shard.runs])}
                for shard in place_runs(config, trainer.devices)
            ],
            "team": [member.folder.name for member in trainer.members],
            "versions": versions(config.env.backend),
            "hardware": hardware(trainer.devices),
            "command": sys.argv,
            "commit": source_commit(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_config(folder, content)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}.") from None
    save_checkpoint(folder, checkpoint_name(0, 0), start_facts(content), {})


def _take_up(job: Job) -> None:
    """Make the folder ready to go on from the job's checkpoint."""
    if job.checkpoint is not None:
        remove_newer(job.checkpoint.path)
    content = read_config(job.folder)
    if content["config"] != (config := config_to_json(job.config)):
        write_config(job.folder, {**content, "config": config})
