"""Training methods from their configs: check, lay out the folders, train side by side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import jax
from rich.console import Console

from lfiw.acting.collector import probe_all
from lfiw.acting.policy import ActionScale
from lfiw.errors import InputError
from lfiw.learning.config import warnings
from lfiw.learning.learner import state_bytes
from lfiw.learning.programs import Programs
from lfiw.machine import usable_cores
from lfiw.runs.layout import main_folder, short_names
from lfiw.runs.trust import keyless_note
from lfiw.settings import to_json
from lfiw.tracking.beside import Tracking
from lfiw.training.callback import OnEvaluation
from lfiw.training.devices import (
    check_memory,
    choose_devices,
    devices_of_teams,
    prepare_jax,
    turns_of_teams,
)
from lfiw.training.folder import Training, begin_folder, check_disk, take_up_folder
from lfiw.training.jobs import Entrant, Job, make_teams
from lfiw.training.progress import Progress
from lfiw.training.side_by_side import train_side_by_side
from lfiw.training.trainer import Trainer
from lfiw.types import EnvSpec


def check_start(
    jobs: Sequence[Job], workers: int | None, devices: str | None
) -> tuple[list[tuple[EnvSpec, ActionScale]], list[jax.Device], str]:
    """What the environments are like, the devices, and a line about memory; a sentence where the
    jobs cannot start. Nothing is written."""
    if workers is not None and workers < 0:
        raise InputError(f"workers must be at least 0, not {workers}.")
    probed = probe_all([job.config.env for job in jobs], in_process=workers == 0)
    prepare_jax()
    chosen = choose_devices(devices)
    needed = sum(
        len(job.config.seeds) * state_bytes(job.config, spec)
        for job, (spec, _) in zip(jobs, probed, strict=True)
    )
    memory = check_memory(needed, chosen)
    # The newest rows and the two checkpoints that are kept take as much as the state does.
    check_disk(needed, [job.folder for job in jobs])
    return probed, chosen, memory


def run_jobs(
    jobs: Sequence[Job],
    workers: int | None,
    devices: str | None,
    console: Console,
    on_evaluation: OnEvaluation | None = None,
    programs: Programs | None = None,
    track: Sequence[str] = (),
) -> list[Training]:
    """Check that all jobs can start, then train them side by side, followed by trackers; with
    `programs` of trainings before, what they have compiled is not compiled again."""
    if on_evaluation is not None and not callable(on_evaluation):
        raise InputError(f"on_evaluation must be a function, not {on_evaluation!r}.")
    say = partial(console.print, highlight=False, soft_wrap=True, markup=False)
    probed, chosen, memory = check_start(jobs, workers, devices)
    say(memory)
    notes = [text for job in jobs for text in warnings(job.config)]
    notes += [keyless_note(to_json(job.config.env)) for job in jobs]
    for note in filter(None, dict.fromkeys(notes)):
        say(f"Note: {note}")
    names = short_names([job.folder for job in jobs])
    entrants = {
        job.folder: Entrant(
            job, spec, scale, Progress(name, job.config.env_steps, len(job.config.seeds))
        )
        for job, (spec, scale), name in zip(jobs, probed, names, strict=True)
    }
    teams = make_teams(jobs, chosen)
    placed = devices_of_teams(len(teams), chosen)
    programs = programs or Programs()
    trainers = [
        Trainer([entrants[job.folder] for job in team], devices, turn, programs)
        for team, devices, turn in zip(teams, placed, turns_of_teams(placed), strict=True)
    ]
    with ExitStack() as locks:
        for team, trainer in zip(teams, trainers, strict=True):
            for job, circumstances in zip(team, trainer.circumstances(), strict=True):
                if job.resumed:
                    take_up_folder(job)
                else:
                    begin_folder(job, circumstances, locks)
        num_workers = usable_cores() if workers is None else workers
        followed = list(dict.fromkeys(main_folder(job.folder) for job in jobs))
        with Tracking(track, followed, say):
            train_side_by_side(trainers, num_workers, console, on_evaluation)
    return [Training(job.folder, job.config) for job in jobs]
