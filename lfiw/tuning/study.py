"""A study: trials in a folder that remembers them, until there are enough."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState
from rich.console import Console
from sqlalchemy.exc import SQLAlchemyError

from lfiw.errors import Damaged, InputError, RunError
from lfiw.learning.config import check, warnings
from lfiw.learning.programs import Programs
from lfiw.runs.files import make_parent, read_json, write_json
from lfiw.runs.lock import LOCK, locked
from lfiw.runs.trust import signed
from lfiw.settings import pick, to_json
from lfiw.training.jobs import Job
from lfiw.training.start import check_start
from lfiw.tuning.outcome import BEST, Plan, best_trials, line_of
from lfiw.tuning.space import config_of, start_of
from lfiw.tuning.trial import OBJECTIVES, REASON, run_trial
from lfiw.wording import one_line

STUDY, STORAGE, TRIALS = "study.json", "optuna.db", "trials"
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
PRUNED_AFTER = 4  # no trial is ended in the first quarter of its steps
MAX_FAILURES = 5  # in a row: then it is not the settings that are wrong
MAX_REPEATS = 3  # of a trial that was cut short
REPEATS = "repeats"  # kept beside a trial's parameters


@dataclass(frozen=True)
class Place:
    """Where and with what a study runs."""

    out: Path
    workers: int | None
    devices: str | None
    console: Console  # of messages


def tune(plan: Plan, num_trials: int, place: Place) -> optuna.Study:
    """Go on with the study in the folder, or begin it, until so many trials are finished."""
    check_plan(plan, num_trials)
    refuse_other(plan, place.out)
    first = Job(plan.config, folder_of(place.out, 0))
    check_start([first], place.workers, place.devices)  # nothing is written unless it can start
    make_parent(place.out / STUDY)
    with locked(place.out):
        refuse_other(plan, place.out)  # another process may have been quicker
        write_json(place.out / STUDY, plan.facts())
        with explained(place.out):
            study = open_study(plan, place.out)
            begin_again(study, plan, place.out)
            for note in warnings(plan.config) if num_finished(study) < num_trials else ():
                place.console.print(f"Note: {note}", highlight=False, soft_wrap=True)
            run_trials(study, plan, num_trials, place)
            write_best(study, plan, place.out)
    return study


def check_plan(plan: Plan, num_trials: int) -> None:
    check(plan.config)
    pick(plan.objective, OBJECTIVES, "objective")
    if num_trials < 1:
        raise InputError(f"--trials must be at least 1, not {num_trials}.")
    if not 0 <= plan.seed < 2**31:
        raise InputError(f"--seed must be at least 0 and below 2^31, not {plan.seed}.")
    if plan.config.stop_at_return is not None:
        raise InputError("stop_at_return would cut the curves that a study compares: leave it out.")


def refuse_other(plan: Plan, out: Path) -> None:
    """A folder of another study, or of something else."""
    if "?" in str(out):
        raise InputError(
            f"--out {out} cannot have a question mark, which a database would misread."
        )
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is no folder: choose another --out.")
    if not (out / STUDY).exists():
        if out.exists() and not {path.name for path in out.iterdir()} <= {LOCK, "study.tmp"}:
            raise InputError(f"{out} already holds something else: choose another --out.")
        return
    try:
        before = read_json(out / STUDY)
    except Damaged as error:
        raise InputError(f"{error} Choose another --out, or remove {out}.") from None
    changes = differences(before, plan.facts())
    if changes:
        raise InputError(
            f"{out} holds a study with other settings ({'; '.join(changes)}): give those, or "
            f"choose another --out."
        )


def differences(before: Any, now: Any, name: str = "") -> list[str]:
    """Such as 'env_steps: 1000, now 2000', by the names of settings."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            change
            for key in sorted(before.keys() | now.keys())
            for change in differences(before.get(key), now.get(key), f"{name}.{key}")
        ]
    shown = name.removeprefix(".").removeprefix("config.")
    return [] if before == now else [f"{shown}: {before}, now {now}"]


@contextmanager
def explained(out: Path) -> Iterator[None]:
    """What ends a study before its time, in words that help."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on") from None
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"{out / STORAGE} cannot be read or written: {reason}") from error


def open_study(plan: Plan, out: Path) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        storage=optuna.storages.RDBStorage(f"sqlite:///{out / STORAGE}"),
        study_name=plan.config.method,
        direction="maximize",
        pruner=optuna.pruners.MedianPruner(n_warmup_steps=plan.config.env_steps // PRUNED_AFTER),
        load_if_exists=True,
    )
    # One that goes on draws other numbers than it began with.
    study.sampler = optuna.samplers.TPESampler(seed=plan.seed + num_finished(study))
    return study


def begin_again(study: optuna.Study, plan: Plan, out: Path) -> None:
    """The first trial has the values of the config itself. A trial that a kill or a signal has cut
    short has failed, and another one with its parameters takes its place; not for ever, since it
    may be what killed the process."""
    trials = study.get_trials(deepcopy=False)
    if not trials:
        study.enqueue_trial(start_of(plan.config, plan.space))
    for trial in trials:
        if trial.state == TrialState.RUNNING:
            # In this order: a kill in between may repeat a trial, and loses none.
            repeats = trial.user_attrs.get(REPEATS, 0) + 1
            if repeats <= MAX_REPEATS:
                given = trial.system_attrs.get("fixed_params", {})
                study.enqueue_trial(given | trial.params, user_attrs={REPEATS: repeats})
            shutil.rmtree(folder_of(out, trial.number), ignore_errors=True)
            study.tell(trial.number, state=TrialState.FAIL)


def folder_of(out: Path, number: int) -> Path:
    return out / TRIALS / f"{number:03d}"


def num_finished(study: optuna.Study) -> int:
    return len(study.get_trials(deepcopy=False, states=FINISHED))


def run_trials(study: optuna.Study, plan: Plan, num_trials: int, place: Place) -> None:
    programs, failures = Programs(), 0
    while (finished := num_finished(study)) < num_trials:
        trial = study.ask()
        for searched in plan.space:
            searched.suggest(trial)
        title = f"Trial {trial.number} ({finished + 1} of {num_trials})"
        with place.console.status(title) as status:
            outcome = run_one(study, trial, plan, place, programs, followed(status, title))
        failures = 0 if outcome is None else failures + 1
        place.console.print(
            one_line(f"{title}: {line_of(study, trial.number, plan)}"),
            highlight=False,
            soft_wrap=True,
        )
        if failures == MAX_FAILURES:
            raise RunError(f"{MAX_FAILURES} trials in a row have failed, the last one: {outcome}")
        write_best(study, plan, place.out)


def followed(status: Any, title: str) -> Callable[[str], None]:
    return lambda text: status.update(f"{title}: {text}")


def run_one(
    study: optuna.Study,
    trial: optuna.Trial,
    plan: Plan,
    place: Place,
    programs: Programs,
    show: Callable[[str], None],
) -> str | None:
    """Train a trial and tell the study; why it failed, if it did."""
    try:
        value = run_trial(
            trial,
            config_of(plan.config, plan.space, trial.params),
            folder_of(place.out, trial.number),
            plan.objective,
            workers=place.workers,
            devices=place.devices,
            programs=programs,
            show=show,
        )
    except optuna.TrialPruned:
        study.tell(trial, state=TrialState.PRUNED)
    except (InputError, RunError) as error:
        trial.set_user_attr(REASON, str(error))
        study.tell(trial, state=TrialState.FAIL)
        return str(error)
    else:
        study.tell(trial, value)
    return None


def write_best(study: optuna.Study, plan: Plan, out: Path) -> None:
    """The config of the best trial, as a training records its own."""
    for trial in best_trials(study)[:1]:
        config = config_of(plan.config, plan.space, trial.params)
        facts = {"trial": trial.number, "objective": plan.objective, "value": trial.value}
        content = {"config": to_json(config), "study": facts, **signed(to_json(config.env))}
        write_json(out / BEST, content)
