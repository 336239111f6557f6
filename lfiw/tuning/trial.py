"""One trial: a training of all seeds, told to Optuna evaluation by evaluation."""

from __future__ import annotations

import math
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import numpy as np
import optuna
from rich.console import Console

from lfiw.errors import RunError
from lfiw.learning.config import TrainConfig, check
from lfiw.learning.programs import Programs
from lfiw.results.catalogue import MEASURES
from lfiw.results.curves import Curves, read_curves
from lfiw.runs.layout import CONFIG
from lfiw.runs.read import LOG, stopped_seeds
from lfiw.training.callback import Evaluation
from lfiw.training.jobs import Job
from lfiw.training.start import run_jobs

TRIAL = "trial.json"
SEED_VALUES, REASON = "seed values", "reason"  # what is kept beside a trial's parameters

OBJECTIVES: dict[str, Callable[[Curves], np.ndarray]] = {
    measure.name: measure.of for measure in MEASURES if measure.name in ("final", "area")
}


class Reporter:
    """Reports the mean over seeds of each evaluation, and ends a trial that has fallen behind."""

    def __init__(
        self, trial: optuna.Trial, config: TrainConfig, show: Callable[[str], None]
    ) -> None:
        self.trial, self.config, self.show = trial, config, show
        self.returns: defaultdict[int, dict[int, float]] = defaultdict(dict)  # by step and seed

    def __call__(self, evaluation: Evaluation) -> None:
        env_steps = evaluation.env_steps
        if any(len(own) < len(self.config.seeds) for own in self.returns.values()):
            refuse_stopped(evaluation.folder)
        own = self.returns[env_steps]
        own[evaluation.seed] = evaluation.return_mean
        if len(own) < len(self.config.seeds):
            return
        del self.returns[env_steps]
        mean = fmean(own.values())
        self.trial.report(mean, env_steps)
        self.show(f"{env_steps:,} of {self.config.env_steps:,} steps, return {mean:,.4g}")
        if env_steps < self.config.env_steps and self.trial.should_prune():
            raise optuna.TrialPruned


def refuse_stopped(folder: Path) -> None:
    """Without one of its seeds a trial has no value: the others need not train to their end."""
    if seeds := sorted(stopped_seeds(folder)):
        raise RunError(f"the numbers of seed {seeds[0]} were no longer finite")


def run_trial(
    trial: optuna.Trial,
    config: TrainConfig,
    folder: Path,
    objective: str,
    *,
    workers: int | None,
    devices: str | None,
    programs: Programs,
    show: Callable[[str], None],
) -> float:
    """The value of a trial; raises `TrialPruned` where it was ended, and a sentence where it
    failed. Of its folder the config and the log stay."""
    check(config)  # each setting is valid; together they may not be
    shutil.rmtree(folder, ignore_errors=True)  # a kill may have come before it was known
    try:
        run_jobs(
            [Job(config, folder)],
            workers,
            devices,
            Console(quiet=True),
            Reporter(trial, config, show),
            programs,
        )
        values = OBJECTIVES[objective](read_curves(folder))
    finally:
        slim(folder)
    if len(values) < len(config.seeds) or not all(map(math.isfinite, values)):
        raise RunError("not every seed has a finite return")
    trial.set_user_attr(SEED_VALUES, [float(value) for value in values])
    return float(values.mean())


def slim(folder: Path) -> None:
    """Keep what says what was trained and how it went. What is left is no method folder, so that
    other commands take no trial for a run of the user's."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name == CONFIG:
            path.rename(folder / TRIAL)
        elif path.name not in (LOG, TRIAL):
            path.unlink()
