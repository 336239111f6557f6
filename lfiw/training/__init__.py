"""Training methods: from their configs, to their folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.learning.config import TrainConfig, make_config
from lfiw.training.callback import OnEvaluation
from lfiw.training.folder import Training, plan_trainings, refuse_clashes
from lfiw.training.jobs import Job
from lfiw.training.start import run_jobs


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
    on_evaluation: OnEvaluation | None = None,
    **settings: Any,
) -> Training:
    """Train all seeds of one method; `agent` and `replay` are names or their configs.

    `on_evaluation` is called with an `lfiw.Evaluation` after each evaluation of each seed, in the
    thread that called this function; where it returns False, that seed ends. What it raises is
    raised here, when all is saved.

    >>> training = lfiw.train("Pendulum-v1", "sac", "lfiw", seeds=(0, 1), env_steps=20_000)
    >>> policy = lfiw.load_policy(training, seed=0)
    """
    if isinstance(env, TrainConfig):
        if settings or (agent, replay, preset) != ("sac", "lfiw", "default"):
            raise InputError("A TrainConfig says all by itself: change its settings there.")
        config = env
    else:
        config = make_config(env, agent, replay, preset, **settings)
    where: dict[str, Any] = {"out": out, "label": label, "workers": workers, "devices": devices}
    return train_all([config], quiet=quiet, on_evaluation=on_evaluation, **where)[0]


def train_all(
    configs: Sequence[TrainConfig],
    *,
    out: str | Path = "runs",
    label: str | Sequence[str] = "",
    workers: int | None = None,
    devices: str | None = None,
    quiet: bool = False,
    on_evaluation: OnEvaluation | None = None,
) -> list[Training]:
    """Train several methods side by side; nothing is written unless all can start. The label is one
    for all, or one for each."""
    if not configs:
        raise InputError("There is nothing to train.")
    planned = plan_trainings(configs, out, label)
    refuse_clashes([training.folder for training in planned])
    jobs = [Job(training.config, training.folder) for training in planned]
    console = Console(quiet=quiet, stderr=True, markup=False)
    return run_jobs(jobs, workers, devices, console, on_evaluation)
