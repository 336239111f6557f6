"""Runs in MLflow, in the store that its own environment variables name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from lfiw.tracking import PROJECT, About, Point

# What a server takes in one request.
MAX_METRICS, MAX_PARAMS, MAX_PARAM_LETTERS = 1000, 100, 6000
STATES = {"stopped": "FAILED", "unfinished": "KILLED"}


class MlflowRun:
    def __init__(self, about: About, known: str | None) -> None:
        self._client = MlflowClient()
        self.id = known or self._create(about)
        if known:
            self._client.update_run(known, status="RUNNING")
        # What a resume changes, such as the steps, is told here: a parameter is set once.
        self._client.log_dict(self.id, dict(about.config), "config.json")

    def _create(self, about: About) -> str:
        tags = {**about.tags, "group": about.group}
        run: str = self._client.create_run(
            self._experiment(), run_name=about.name, tags=tags
        ).info.run_id
        params = [Param(name, str(value)[:MAX_PARAM_LETTERS]) for name, value in flat(about.config)]
        for part in parts(params, MAX_PARAMS):
            self._client.log_batch(run, params=part)
        return run

    def _experiment(self) -> str:
        if number := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return number
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        found = self._client.get_experiment_by_name(name)
        number = found.experiment_id if found else self._client.create_experiment(name)
        return str(number)

    def log(self, points: Sequence[Point]) -> None:
        metrics = [
            # With the time of its row, a metric that is sent twice is kept once.
            Metric(tag, number, int(point.seconds * 1000), point.env_steps)
            for point in points
            for tag, number in point.numbers.items()
        ]
        for part in parts(metrics, MAX_METRICS):
            self._client.log_batch(self.id, metrics=part)

    def tell(self, title: str, sentence: str, env_steps: int) -> None:
        self._client.set_tag(self.id, f"{title} at {env_steps} steps", sentence)

    def show(self, video: Path, env_steps: int) -> None:
        self._client.log_artifact(self.id, str(video), "videos")

    def close(self, summary: Mapping[str, float], state: str, env_steps: int) -> None:
        for name, number in summary.items():
            self._client.log_metric(self.id, name, number, step=env_steps)
        self._client.set_tag(self.id, "state", state)
        self._client.set_terminated(self.id, STATES.get(state, "FINISHED"))


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """By dotted name."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def parts(entries: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(entries), size):
        yield entries[start : start + size]
