"""`lfiw bench NAME`: each benchmark is a dataclass; its fields are the options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from lfiw.bench.result import BenchResult
from lfiw.config import TrainConfig, make_config
from lfiw.settings import override, parse


def finish(result: BenchResult, json: Path | None, console: Console) -> None:
    result.show(console)
    if json is not None:
        result.write(json)


@dataclass
class Learner:
    """Time per update on the device alone, for several numbers of runs at once."""

    runs: str = "1,5"
    """Numbers of runs, separated by commas."""
    agent: str = "sac,td3"
    """Agents, separated by commas."""
    replay: str = "uniform,per,ere,lfiw"
    """Replay strategies, separated by commas."""
    env: str = "HalfCheetah-v5"
    """The environment whose sizes are used."""
    calls: int = 7
    """Timed calls of each; the median counts."""
    updates_per_call: int = 100
    """Updates in one compiled call."""
    json: Path | None = None
    """Also write the rows to this file."""

    def run(self, console: Console) -> None:
        from lfiw.bench.learner import bench_learner
        from lfiw.cli import split_names

        def config(agent: str, replay: str, runs: int) -> TrainConfig:
            made = make_config(self.env, agent, replay, seeds=range(runs))
            made = override(made, "updates_per_call", self.updates_per_call)
            return override(made, "phase_env_steps", self.updates_per_call)

        configs = [
            config(agent, replay, runs)
            for agent in split_names(self.agent, "--agent")
            for runs in parse("--runs", self.runs, tuple[int, ...])
            for replay in split_names(self.replay, "--replay")
        ]
        finish(bench_learner(configs, self.calls), self.json, console)


BENCHMARKS: dict[str, Callable[..., Any]] = {"learner": Learner}
