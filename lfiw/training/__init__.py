"""Training methods: from their configs, to their folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.learning.config import TrainConfig, make_config
from lfiw.tracking import Trackers, tracker_names
from lfiw.training.callback import OnEvaluation
from lfiw.training.display import message_console
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
    track: Trackers = (),
    **settings: Any,
) -> Training:
    """Train all seeds of one method, and return when they are done.

    Args:
        env: A Gymnasium id, a function `"module:function"`, or an `EnvConfig` where the environment
            has arguments. Or a whole `TrainConfig`, which says all by itself.
        agent: `"sac"`, `"td3"`, `"xqc"`, `"flashsac"`, or a config such as `SacConfig(gamma=0.98)`.
        replay: The name of a strategy, or its config.
        preset: `"default"`, or `"paper"` for the paper's numbers.
        out: Where method folders go. This one is `OUT/ENV/AGENT-REPLAY[-LABEL]`, and must be free.
        label: Appended to the folder's name.
        workers: Processes that step environments, one per core by default; 0: all in this process.
        devices: `"cpu"`, `"gpu"`, `"cpu:2"` (the first two) or `"gpu:0,2"` (these); all by default.
        quiet: Show no progress.
        on_evaluation: Called with an `lfiw.Evaluation` after each evaluation of each seed, in the
            thread that called this function; where it returns False, that seed ends. What it raises
            is raised here, when all is saved.
        track: Experiment trackers that follow the runs: `"wandb"`, `"trackio"`, `"mlflow"`.
        **settings: Those of `TrainConfig`, such as `seeds` and `env_steps`; dotted names as
            `**{"agent.gamma": 0.98}`.

    Returns:
        The method folder with its config; a path-like object.

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
    where |= {"quiet": quiet, "on_evaluation": on_evaluation, "track": track}
    return train_all([config], **where)[0]


def train_all(
    configs: Sequence[TrainConfig],
    *,
    out: str | Path = "runs",
    label: str | Sequence[str] = "",
    workers: int | None = None,
    devices: str | None = None,
    quiet: bool = False,
    on_evaluation: OnEvaluation | None = None,
    track: Trackers = (),
) -> list[Training]:
    """Train several methods side by side, on one environment or on several.

    Nothing is written unless all can start.

    Args:
        configs: What to train, each made by `lfiw.make_config`.
        label: One for all, or one for each.
        out: As for `lfiw.train`, and so are the others.

    >>> configs = [lfiw.make_config("Hopper-v5", "sac", replay) for replay in ("uniform", "lfiw")]
    >>> trainings = lfiw.train_all(configs)
    """
    if not configs:
        raise InputError("There is nothing to train.")
    names = tracker_names(track)
    planned = plan_trainings(configs, out, label)
    refuse_clashes([training.folder for training in planned])
    jobs = [Job(training.config, training.folder) for training in planned]
    return run_jobs(jobs, workers, devices, message_console(quiet), on_evaluation, track=names)
