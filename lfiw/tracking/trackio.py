"""Runs in Trackio, on this machine or where its own environment variables say."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import trackio

from lfiw.tracking import PROJECT, About, Point


class TrackioRun:
    def __init__(self, about: About, known: str | None) -> None:
        # Trackio finds a run by its name: that of another training must not be the same.
        self.id = known or f"{about.name}-{uuid.uuid4().hex[:6]}"
        # `init` would end the run of the seed before.
        trackio.context_vars.current_run.set(None)
        self._run = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT") or PROJECT,
            name=self.id,
            group=about.group,
            config={**about.config, "tags": dict(about.tags)},
            resume="allow" if known else "never",
            embed=False,
            auto_log_gpu=False,  # of the process that trains it knows nothing
            auto_log_cpu=False,
        )

    def log(self, points: Sequence[Point]) -> None:
        for point in points:
            self._run.log(dict(point.numbers), step=point.env_steps)

    def tell(self, title: str, sentence: str, env_steps: int) -> None:
        self._run.alert(f"{title} at {env_steps} steps", sentence)

    def show(self, video: Path, env_steps: int) -> None:
        self._run.log({"video": trackio.Video(str(video))}, step=env_steps)

    def close(self, summary: Mapping[str, float], state: str, env_steps: int) -> None:
        self._run.log({**summary, "state": state}, step=env_steps)
        self._run.finish()
