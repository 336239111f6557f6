"""What a study was to find and what it found, as people read it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from lfiw.learning.config import TrainConfig
from lfiw.results.table import Table
from lfiw.settings import to_json
from lfiw.tuning.space import Searched, values_of
from lfiw.tuning.trial import REASON, SEED_VALUES
from lfiw.wording import count, deviation, spread

BEST = "best.json"
SHOWN = 5  # of the best trials


@dataclass(frozen=True)
class Plan:
    """What a study searches, and by which measure. The same folder has the same plan."""

    config: TrainConfig  # with the values of all that is not searched
    space: tuple[Searched, ...]
    objective: str = "final"
    seed: int = 0  # of Optuna's sampler

    def facts(self) -> dict[str, Any]:
        return {
            "config": to_json(self.config),
            "search": {searched.name: searched.text() for searched in self.space},
            "objective": self.objective,
            "seed": self.seed,
        }


def line_of(study: optuna.Study, number: int, plan: Plan) -> str:
    """What became of a trial, and what it was."""
    trial = study.get_trials(deepcopy=False)[number]
    settings = ", ".join(
        f"{name}={shown(value)}" for name, value in values_of(plan.space, trial.params).items()
    )
    if trial.state == TrialState.PRUNED:
        env_steps = max(trial.intermediate_values)
        return f"ended at {env_steps:,} steps, below the median; {settings}"
    if trial.state == TrialState.FAIL:
        return f"failed, {trial.user_attrs[REASON]}; {settings}"
    best = study.best_trial.number
    rank = "the best so far" if best == number else f"trial {best} has {shown(study.best_value)}"
    return f"{plan.objective} {shown(trial.value)}, {rank}; {settings}"


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def best_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Of those that were trained to their end, the best first."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return sorted(complete, key=lambda trial: (-(trial.value or 0.0), trial.number))


def best_table(study: optuna.Study, plan: Plan) -> Table:
    """The best trials with what was searched."""
    names = [searched.name for searched in plan.space]
    header = ("trial", plan.objective, *short_settings(names))
    rows = [
        (
            str(trial.number),
            value_text(trial),
            *(shown(value) for value in values_of(plan.space, trial.params).values()),
        )
        for trial in best_trials(study)[:SHOWN]
    ]
    return Table(header, rows, f"{plan.config.env.id} {plan.config.method}: the best trials")


def counts(study: optuna.Study) -> str:
    states = Counter(trial.state for trial in study.get_trials(deepcopy=False))
    return (
        f"{count(sum(states.values()), 'trial')}: {states[TrialState.COMPLETE]} complete, "
        f"{states[TrialState.PRUNED]} ended early, {states[TrialState.FAIL]} failed."
    )


def value_text(trial: FrozenTrial) -> str:
    """With four digits where returns are small."""
    values = np.array(trial.user_attrs[SEED_VALUES])
    if abs(values).max() >= 100:
        return spread(values)
    of_seeds = deviation(values)
    mean = f"{values.mean():.4g}"
    return mean if of_seeds is None else f"{mean} ± {of_seeds:.4g}"


def short_settings(names: Sequence[str]) -> list[str]:
    """The last part of each name where no two share it."""
    last = [name.rpartition(".")[2] for name in names]
    return [own if last.count(own) == 1 else name for own, name in zip(last, names, strict=True)]


def train_command(plan: Plan, out: Path) -> str:
    """How to train with the best settings: on seeds that the study has not seen."""
    first = max(plan.config.seeds) + 1
    seeds = ",".join(str(seed) for seed in range(first, first + 5))
    return f"lfiw train --config {shlex.quote(str(out / BEST))} --seeds {seeds}"
