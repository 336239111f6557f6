"""Training one group of runs: collect a phase, learn from it, log, evaluate, and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lfiw.agents import make_agent
from lfiw.checkpoint import Checkpoint, checkpoint_name, save_checkpoint
from lfiw.collector import Collector, Evaluator, PolicyArrays
from lfiw.config import TrainConfig
from lfiw.envs import ActionScale
from lfiw.group import Group
from lfiw.learner import updates_in_call
from lfiw.rollout import Episode, RunnerState, eval_seeds
from lfiw.rows import eval_row, train_row
from lfiw.runlog import Row, RunLog, read_config, save_arrays, save_policies
from lfiw.segments import Segments
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
    """The user asked to stop; a checkpoint is committed."""


@dataclass
class Phase:
    """What a phase has yielded so far; a checkpoint may fall between its calls."""

    episodes: list[list[Episode]]
    calls: list[list[dict[str, np.ndarray]]] = field(default_factory=list)  # by call, by run
    on_device: list[list[Metrics]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def settle(self, group: Group) -> None:
        """Fetch the metrics of the calls that were made."""
        self.calls += [group.split(call) for call in self.on_device]
        self.on_device = []


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
        self.phase: Phase | None = None
        self.saved_at = time.monotonic()
        self.last_saved: dict[str, Any] = {}

    def run(
        self,
        num_workers: int,
        evaluator: Evaluator,
        should_stop: Callable[[], bool],
        checkpoint: Checkpoint | None = None,
        allow_inexact: bool = False,
    ) -> None:
        """Train to the end, from the start or from a checkpoint."""
        config = self.config
        facts = checkpoint.facts if checkpoint else {}
        self.config_file = read_config(self.folder)
        with ExitStack() as stack:
            self.evaluator = evaluator
            self.segments = [
                stack.enter_context(
                    closing(Segments(self.folder / "ring" / f"seed-{seed}", self.spec.row_size))
                )
                for seed in config.seeds
            ]
            self.log = stack.enter_context(
                closing(
                    RunLog(
                        self.folder,
                        self.progress.on_eval,
                        facts.get("log_bytes", 0),
                        facts.get("wall_seconds", 0.0),
                    )
                )
            )
            self.collector = stack.enter_context(
                closing(Collector(config.env, config.seeds, num_workers))
            )
            self.group = Group(config, self.spec, self.devices)
            self._restore(checkpoint, allow_inexact)
            self.progress.state = "training"
            self._train(should_stop)
            self.progress.state = "done"

    def _train(self, should_stop: Callable[[], bool]) -> None:
        config = self.config
        policies: list[PolicyArrays] = list(self.group.policies())
        while self.env_steps < config.env_steps or self.phase is not None:
            if self.phase is None:
                self.phase = Phase(self._collect(policies))
            self._learn(self.phase, should_stop)
            policies = list(self.group.policies())
            self._log_phase(self.phase)
            self._evaluate_when_due(policies)
            self._snapshot_when_due()
            self.phase = None
            if self._checkpoint_due():
                self._save()
        self.progress.state = "evaluating"
        save_policies(self.folder, config.seeds, policies, self.bounds)
        self._save()

    def _collect(self, policies: Sequence[PolicyArrays]) -> list[list[Episode]]:
        config = self.config
        random = self.env_steps < config.random_env_steps
        end = min(config.random_env_steps, config.env_steps) if random else config.env_steps
        count = min(config.phase_env_steps, end - self.env_steps)
        acting = [None] * len(policies) if random else policies
        rows, episodes = self.collector.collect(acting, count)
        self.group.add(rows)
        for segments, own in zip(self.segments, rows, strict=True):
            segments.append(own)
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

    def _learn(self, phase: Phase, should_stop: Callable[[], bool]) -> None:
        """Whole calls of updates; what is left over is due in the next phase."""
        while True:
            if should_stop():
                self.progress.state = "saving"
                self._save()
                raise Stopped
            if self._updates_due() < self.call_updates:
                return
            phase.on_device.append(self.group.learn(self.env_steps, self.updates))
            self.updates += self.call_updates
            self.progress.updates = self.updates
            if len(phase.on_device) > 1:
                jax.block_until_ready(phase.on_device[-2])  # one call ahead keeps it busy

    def _log_phase(self, phase: Phase) -> None:
        phase.settle(self.group)
        seconds = time.monotonic() - phase.started
        rate = len(self.config.seeds) * (self.env_steps - self.phase_start) / seconds
        for run, seed in enumerate(self.config.seeds):
            calls = [call[run] for call in phase.calls]
            row = train_row(seed, self.env_steps, self.updates, calls, phase.episodes[run])
            times = {"steps_per_second": rate, "wall_seconds": self.log.wall_seconds()}
            self.log.append(row | times)

    def _crossed(self, every: int) -> bool:
        """Whether the last phase reached or passed a multiple of `every`."""
        return self.env_steps // every > self.phase_start // every

    def _evaluate_when_due(self, policies: Sequence[PolicyArrays]) -> None:
        finished = self.env_steps >= self.config.env_steps
        if not (finished or self._crossed(self.config.eval_every_env_steps)):
            return
        save_policies(self.folder, self.config.seeds, policies, self.bounds)
        for seed, arrays, seeds in zip(self.config.seeds, policies, self.eval_seeds, strict=True):
            future = self.evaluator.submit(arrays, seeds)
            self.log.append((future, self._to_eval_row(seed, self.env_steps)))

    def _to_eval_row(self, seed: int, env_steps: int) -> Callable[[list[Episode]], Row]:
        def to_row(episodes: list[Episode]) -> Row:
            times = {"wall_seconds": self.log.wall_seconds()}
            return eval_row(seed, env_steps, episodes) | times

        return to_row

    def _snapshot_when_due(self) -> None:
        """Policy, critics and ratio network at each fifth of training."""
        while (
            self.next_snapshot < len(SNAPSHOT_PERCENTS)
            and self.env_steps * 100
            >= SNAPSHOT_PERCENTS[self.next_snapshot] * self.config.env_steps
        ):
            percent = SNAPSHOT_PERCENTS[self.next_snapshot]
            for seed, arrays in zip(self.config.seeds, self.group.snapshots(), strict=True):
                path = self.folder / "snapshots" / f"{percent:03d}" / f"seed-{seed}.safetensors"
                save_arrays(path, {**arrays, **self.bounds})
            self.next_snapshot += 1

    def _checkpoint_due(self) -> bool:
        when = self.config.checkpoint
        if when.every_env_steps is not None and self._crossed(when.every_env_steps):
            return True
        minutes = (time.monotonic() - self.saved_at) / 60
        return when.every_minutes is not None and minutes >= when.every_minutes

    def _save(self) -> None:
        """Commit a checkpoint of everything that an exact resume needs."""
        seeds = [str(seed) for seed in self.config.seeds]
        runners = self.collector.states()
        log_facts = self.log.facts()
        facts: dict[str, Any] = {
            "env_steps": self.env_steps,
            "updates": self.updates,
            "phase_start": self.phase_start,
            "next_snapshot": self.next_snapshot,
            **log_facts,
            "wall_seconds": self.log.wall_seconds(),
            "runners": {seed: runner.facts for seed, runner in zip(seeds, runners, strict=True)},
            "segments": {
                seed: rows.facts() for seed, rows in zip(seeds, self.segments, strict=True)
            },
            "episodes": self.phase.episodes if self.phase else None,
            "config": self.config_file,
        }
        arrays = [
            {f"learner.{name}": array for name, array in state.items()}
            | {"episode.actions": runner.actions, "episode.obs": runner.obs}
            for state, runner in zip(self.group.export(), runners, strict=True)
        ]
        if self.phase is not None:
            self.phase.settle(self.group)
            for index, call in enumerate(self.phase.calls):
                for run, metrics in enumerate(call):
                    arrays[run] |= {f"phase.{index}.{name}": v for name, v in metrics.items()}
        files = {f"seed-{seed}.safetensors": a for seed, a in zip(seeds, arrays, strict=True)}
        save_checkpoint(self.folder, checkpoint_name(self.env_steps, self.updates), facts, files)
        self._drop_rows_before(self.last_saved)  # the older one of the two that are kept
        self.last_saved = facts
        self.saved_at = time.monotonic()

    def _drop_rows_before(self, facts: dict[str, Any]) -> None:
        for seed, segments in zip(self.config.seeds, self.segments, strict=True):
            if facts:
                segments.drop_before(facts["segments"][str(seed)], self.config.capacity)

    def _restore(self, checkpoint: Checkpoint | None, allow_inexact: bool) -> None:
        if checkpoint is None or checkpoint.facts["env_steps"] == 0:
            return  # all follows from the configuration
        facts = self.last_saved = checkpoint.facts
        self.env_steps, self.updates = facts["env_steps"], facts["updates"]
        self.phase_start, self.next_snapshot = facts["phase_start"], facts["next_snapshot"]
        self.progress.env_steps, self.progress.updates = self.env_steps, self.updates
        seeds = [str(seed) for seed in self.config.seeds]
        arrays = [checkpoint.arrays[f"seed-{seed}.safetensors"] for seed in seeds]
        rows = [
            segments.restore(facts["segments"][seed], self.config.capacity)
            for seed, segments in zip(seeds, self.segments, strict=True)
        ]
        self.group.restore([_part(own, "learner.") for own in arrays], rows, self.env_steps)
        self.collector.restore(
            [
                RunnerState(facts["runners"][seed], own["episode.actions"], own["episode.obs"])
                for seed, own in zip(seeds, arrays, strict=True)
            ],
            allow_inexact,
        )
        if facts["episodes"] is not None:
            episodes = [[Episode(*episode) for episode in own] for own in facts["episodes"]]
            self.phase = Phase(episodes, calls=_calls_of(arrays))


def _part(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _calls_of(arrays: Sequence[dict[str, np.ndarray]]) -> list[list[dict[str, np.ndarray]]]:
    """The metrics of an unfinished phase, by call and by run."""
    count = len({name.split(".")[1] for name in arrays[0] if name.startswith("phase.")})
    return [[_part(own, f"phase.{index}.") for own in arrays] for index in range(count)]
