"""Runs in Weights & Biases, online or offline as its own environment variables say."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import wandb

from lfiw.tracking import PROJECT, About, Point

X_AXIS = "env_steps"
MAX_TAG_LETTERS = 64
EXIT_CODES = {"stopped": 1, "unfinished": 255}  # W&B shows them as failed and as killed


class WandbRun:
    def __init__(self, about: About, known: str | None) -> None:
        self.id = known or uuid.uuid4().hex[:12]
        # Arguments would go before the user's own environment variables and settings file.
        project = wandb.setup().settings.project
        self._run = wandb.init(
            project=project or PROJECT,
            name=about.name,
            group=about.group,
            config=dict(about.config),
            tags=[tag[:MAX_TAG_LETTERS] for tag in about.tags.values()],
            id=self.id,
            resume="allow",
            reinit="create_new",  # the runs of all seeds are open at once
            # The process that is measured and whose output is kept would be this one.
            settings=wandb.Settings(console="off", silent=True, x_disable_stats=True),
        )
        # Not the step of W&B, which never goes back and which one run may use only once.
        self._run.define_metric("*", step_metric=X_AXIS)

    def log(self, points: Sequence[Point]) -> None:
        for point in points:
            self._run.log({X_AXIS: point.env_steps, **point.numbers})

    def tell(self, title: str, sentence: str, env_steps: int) -> None:
        self._run.summary[f"{title} at {env_steps} steps"] = sentence

    def show(self, video: Path, env_steps: int) -> None:
        self._run.log({X_AXIS: env_steps, "video": wandb.Video(str(video), format="mp4")})

    def close(self, summary: Mapping[str, float], state: str, env_steps: int) -> None:
        self._run.summary.update({**summary, "state": state})
        self._run.finish(exit_code=EXIT_CODES.get(state, 0))
