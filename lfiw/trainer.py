"""Training one group of runs: collect a phase, learn from it, log, evaluate, and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lfiw.agents import make_agent
from lfiw.collector import Collector, Evaluator, PolicyArrays
from lfiw.config import TrainConfig
from lfiw.envs import ActionScale
from lfiw.group import Group
from lfiw.learner import updates_in_call
from lfiw.rollout import Episode, eval_seeds
from lfiw.runlog import Row, RunLog, save_arrays, save_policies
from lfiw.types import EnvSpec, Metrics

SNAPSHOT_PERCENTS = (20, 40, 60, 80, 100)


@dataclass
class Progress:
    """What the display reads while a group trains."""

    name: str
    total_env_steps: int
    num_runs: int
    env_steps: int = 0
    updates: int = 0
    returns: dict[int, float] = field(default_factory=dict)  # seed -> latest evaluation
    evaluated_at: int = 0
    state: str = "starting"

    def on_eval(self, row: Row) -> None:
        self.returns[row["seed"]] = row["return_mean"]
        self.evaluated_at = row["env_steps"]


class Stopped(Exception):
    """The user asked to stop."""


class GroupTrainer:
    """The plain sequential loop of one group. Several groups train side by side by running
    their loops in threads: while one waits for the device, another steps environments."""

    def __init__(
        self,
        config: TrainConfig,
        spec: EnvSpec,
        scale: ActionScale,
        folder: Path,
        progress: Progress,
        devices: Sequence[jax.Device],
    ) -> None:
        self.config = config
        self.devices = devices
        self.spec = spec
        self.folder = folder
        self.progress = progress
        self.bounds = {"action_low": scale.low, "action_high": scale.high}
        period = make_agent(config.agent, spec, config.batch_size).period
        self.call_updates = updates_in_call(config, period)
        self.eval_seeds = [eval_seeds(seed, config.eval_episodes) for seed in config.seeds]
        self.env_steps = 0
        self.phase_start = 0
        self.updates = 0
        self.next_snapshot = 0

    def run(
        self,
        num_workers: int,
        evaluator: Evaluator,
        should_stop: Callable[[], bool],
    ) -> None:
        config = self.config
        log = RunLog(self.folder, self.progress.on_eval)
        collector = Collector(config.env, config.seeds, num_workers)
        try:
            group = Group(config, self.spec, self.devices)
            policies: list[PolicyArrays] = list(group.policies())
            self.progress.state = "training"
            while self.env_steps < config.env_steps:
                started = time.monotonic()
                episodes = self._collect(collector, group, policies)
                metrics = self._learn(group, should_stop)
                policies = list(group.policies())
                self._log_phase(log, group, episodes, metrics, time.monotonic() - started)
                self._evaluate_when_due(log, evaluator, policies)
                self._snapshot_when_due(group)
            save_policies(self.folder, config.seeds, policies, self.bounds)
            self.progress.state = "evaluating"
            log.flush(wait=True)
            self.progress.state = "done"
        finally:
            collector.close()
            log.close()

    def _collect(
        self, collector: Collector, group: Group, policies: Sequence[PolicyArrays]
    ) -> list[list[Episode]]:
        config = self.config
        random = self.env_steps < config.random_env_steps
        end = min(config.random_env_steps, config.env_steps) if random else config.env_steps
        count = min(config.phase_env_steps, end - self.env_steps)
        rows, episodes = collector.collect([None] * len(policies) if random else policies, count)
        group.add(rows)
        self.phase_start = self.env_steps
        self.env_steps += count
        self.progress.env_steps = self.env_steps
        return episodes

    def _updates_due(self) -> int:
        config = self.config
        if self.env_steps < config.learning_starts:
            return 0
        trained_steps = self.env_steps - config.learning_starts
        return int(trained_steps * config.updates_per_env_step) - self.updates

    def _learn(self, group: Group, should_stop: Callable[[], bool]) -> list[list[Metrics]]:
        """Whole calls of updates; what is left over is due in the next phase."""
        seen: list[list[Metrics]] = []
        while self._updates_due() >= self.call_updates:
            seen.append(group.learn(self.env_steps, self.updates))
            self.updates += self.call_updates
            self.progress.updates = self.updates
            if len(seen) > 1:
                jax.block_until_ready(seen[-2])  # one call ahead keeps the device busy
            if should_stop():
                raise Stopped
        if should_stop():
            raise Stopped
        return seen

    def _log_phase(
        self,
        log: RunLog,
        group: Group,
        episodes: list[list[Episode]],
        metrics: list[list[Metrics]],
        seconds: float,
    ) -> None:
        calls = [group.split(call) for call in metrics]
        rate = len(self.config.seeds) * (self.env_steps - self.phase_start) / seconds
        for run, seed in enumerate(self.config.seeds):
            row: Row = {
                "kind": "train",
                "seed": seed,
                "env_steps": self.env_steps,
                "updates": self.updates,
            }
            for name in calls[0][run] if calls else ():
                row[name] = np.mean([call[run][name] for call in calls], axis=0)
            row["episodes"] = len(episodes[run])
            if episodes[run]:
                returns, lengths = zip(*episodes[run], strict=True)
                row["episode_return_mean"] = float(np.mean(returns))
                row["episode_length_mean"] = float(np.mean(lengths))
            row["steps_per_second"] = rate
            row["wall_seconds"] = log.wall_seconds()
            log.append(row)

    def _crossed(self, every: int) -> bool:
        """Whether the last phase reached or passed a multiple of `every`."""
        return self.env_steps // every > self.phase_start // every

    def _evaluate_when_due(
        self, log: RunLog, evaluator: Evaluator, policies: Sequence[PolicyArrays]
    ) -> None:
        finished = self.env_steps >= self.config.env_steps
        if not (finished or self._crossed(self.config.eval_every_env_steps)):
            return
        save_policies(self.folder, self.config.seeds, policies, self.bounds)
        for seed, arrays, seeds in zip(self.config.seeds, policies, self.eval_seeds, strict=True):
            future: Future[Any] = evaluator.submit(arrays, seeds)
            log.append((future, self._eval_row(log, seed, self.env_steps)))

    def _eval_row(self, log: RunLog, seed: int, env_steps: int) -> Callable[[list[Episode]], Row]:
        def to_row(episodes: list[Episode]) -> Row:
            returns, lengths = zip(*episodes, strict=True)
            return {
                "kind": "eval",
                "seed": seed,
                "env_steps": env_steps,
                "return_mean": float(np.mean(returns)),
                "return_std": float(np.std(returns)),
                "length_mean": float(np.mean(lengths)),
                "episodes": len(episodes),
                "wall_seconds": log.wall_seconds(),
            }

        return to_row

    def _snapshot_when_due(self, group: Group) -> None:
        """Policy, critics and ratio network at each fifth of training."""
        while (
            self.next_snapshot < len(SNAPSHOT_PERCENTS)
            and self.env_steps * 100
            >= SNAPSHOT_PERCENTS[self.next_snapshot] * self.config.env_steps
        ):
            percent = SNAPSHOT_PERCENTS[self.next_snapshot]
            for seed, arrays in zip(self.config.seeds, group.snapshots(), strict=True):
                path = self.folder / "snapshots" / f"{percent:03d}" / f"seed-{seed}.safetensors"
                save_arrays(path, {**arrays, **self.bounds})
            self.next_snapshot += 1
