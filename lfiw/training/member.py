"""One method in training: its environments, learners, log and files. The trainer says when."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lfiw.acting.collector import Collector, PolicyArrays
from lfiw.acting.episodes import Evaluated
from lfiw.acting.evaluator import Evaluator, eval_seeds
from lfiw.acting.policy import ActionScale
from lfiw.acting.rollout import Collected, RunnerState
from lfiw.errors import Damaged
from lfiw.learning.config import TrainConfig
from lfiw.learning.group import Group
from lfiw.learning.packed import Packed
from lfiw.runs.checkpoint import Checkpoint, checkpoint_name, keep_newest, save_checkpoint
from lfiw.runs.config_file import read_config
from lfiw.runs.files import save_arrays
from lfiw.runs.layout import SNAPSHOT_PERCENTS, snapshot_file
from lfiw.runs.log import RunLog
from lfiw.runs.policies import save_policies
from lfiw.runs.rows import Row, eval_row, stopped_row, train_row
from lfiw.runs.segments import Segments
from lfiw.training.phase import NO_PHASE, Phase, Position, part, restored_phase, sickness
from lfiw.training.progress import Progress
from lfiw.types import EnvSpec


class Member:
    """The runs of one method and their folder."""

    def __init__(
        self, config: TrainConfig, spec: EnvSpec, scale: ActionScale, folder: Path, name: str
    ) -> None:
        self.config = config
        self.spec = spec
        self.folder = folder
        self.progress = Progress(name, config.env_steps, len(config.seeds))
        self.bounds = {"action_low": scale.low, "action_high": scale.high}
        self.eval_seeds = [eval_seeds(seed, config.eval_episodes) for seed in config.seeds]
        self.next_snapshot = 0
        self.stopped: dict[int, str] = {}  # sick runs and what they have
        self.phase: Phase | None = None
        self.last_saved: dict[str, Any] = {}

    def open(
        self,
        stack: ExitStack,
        devices: Sequence[jax.Device],
        num_workers: int,
        evaluator: Evaluator,
        checkpoint: Checkpoint | None,
        allow_inexact: bool,
    ) -> Position:
        """Take hold of everything, at the start or where the checkpoint left it."""
        config, facts = self.config, checkpoint.facts if checkpoint else {}
        self.config_file = read_config(self.folder)
        self.evaluator = evaluator
        self.segments = [
            stack.enter_context(
                closing(Segments(self.folder / "ring" / f"seed-{seed}", self.spec.row_size))
            )
            for seed in config.seeds
        ]
        log_bytes, elapsed = facts.get("log_bytes", 0), facts.get("wall_seconds", 0.0)
        self.log = stack.enter_context(
            closing(RunLog(self.folder, self.progress.on_row, log_bytes, elapsed))
        )
        self.collector = stack.enter_context(
            closing(Collector(config.env, config.seeds, num_workers))
        )
        self.runners = self.collector.opened
        self.group = Group(config, self.spec, devices)
        position = Position()
        if checkpoint and checkpoint.facts["env_steps"] > 0:  # else all follows from the config
            position = self._restore(checkpoint, allow_inexact)
        self.policies: list[PolicyArrays] = list(self.group.policies())
        self.show(position)
        return position

    def show(self, position: Position) -> None:
        self.progress.env_steps, self.progress.updates = position.env_steps, position.updates

    def live_runs(self) -> list[int]:
        return [run for run in range(len(self.config.seeds)) if run not in self.stopped]

    def collect(self, count: int, random: bool) -> dict[int, Collected]:
        """Environment steps of all runs; nothing is kept before all members have theirs."""
        policies = {run: None if random else self.policies[run] for run in self.live_runs()}
        return self.collector.collect(policies, count)

    def begin_phase(self, collected: dict[int, Collected], count: int) -> None:
        """Put what was collected into the ring and on the disk."""
        num_runs = len(self.config.seeds)
        rows = np.zeros((num_runs, count, self.spec.row_size), np.float32)
        self.phase = Phase([[] for _ in range(num_runs)], [[] for _ in range(num_runs)])
        for run, own in collected.items():
            rows[run] = own.rows
            self.segments[run].append(own.rows)
            self.runners[run] = own.state
            self.phase.episodes[run], self.phase.faults[run] = own.episodes, own.faults
        self.group.add(rows)

    def took_call(self, metrics: list[Packed]) -> None:
        """Take over what a call of updates will yield, and fetch what those before it did: one
        call ahead keeps the device busy meanwhile."""
        assert self.phase is not None
        self.phase.on_device.append(metrics)
        self.phase.settle(self.group, in_flight=1)

    def finish_phase(self, position: Position) -> None:
        """Log the phase, and evaluate and snapshot when it is time."""
        assert self.phase is not None
        self._settle(self.phase, position.env_steps)
        self._log_phase(self.phase, position)
        self.phase = None
        finished = position.env_steps >= self.config.env_steps
        if finished or position.crossed(self.config.eval_every_env_steps):
            self._evaluate(position.env_steps)
        self._snapshot_when_due(position.env_steps)

    def _settle(self, phase: Phase, env_steps: int) -> None:
        """Fetch what the calls of a phase led to, and stop the runs that they made sick: these
        are no longer collected, logged or evaluated, though their slots learn on."""
        self.policies = list(self.group.policies())
        phase.settle(self.group)
        for run in self.live_runs():
            reason = sickness(self.policies[run], [call[run] for call in phase.calls])
            if reason is None:
                continue
            seed = self.config.seeds[run]
            self.stopped[run] = reason
            keep_newest(self.folder, f"stopped-seed-{seed}")
            times = {"wall_seconds": self.log.wall_seconds()}
            self.log.append(stopped_row(seed, env_steps, reason) | times)

    def _log_phase(self, phase: Phase, position: Position) -> None:
        seconds = time.monotonic() - phase.started
        env_steps, updates, start = position
        live = self.live_runs()
        rate = len(live) * (env_steps - start) / seconds
        for run in live:
            calls = [call[run] for call in phase.calls]
            seed, episodes, faults = self.config.seeds[run], phase.episodes[run], phase.faults[run]
            row = train_row(seed, env_steps, updates, calls, episodes, faults)
            times = {"steps_per_second": rate, "wall_seconds": self.log.wall_seconds()}
            self.log.append(row | times)

    def save_policies(self) -> None:
        policies = {self.config.seeds[run]: self.policies[run] for run in self.live_runs()}
        save_policies(self.folder, policies, self.bounds)

    def _evaluate(self, env_steps: int) -> None:
        self.save_policies()
        for run in self.live_runs():
            future = self.evaluator.submit(self.policies[run], self.eval_seeds[run])
            self.log.append((future, self._to_eval_row(self.config.seeds[run], env_steps)))

    def _to_eval_row(self, seed: int, env_steps: int) -> Callable[[Evaluated], Row]:
        def to_row(evaluated: Evaluated) -> Row:
            times = {"wall_seconds": self.log.wall_seconds()}
            return eval_row(seed, env_steps, *evaluated) | times

        return to_row

    def _snapshot_when_due(self, env_steps: int) -> None:
        """Policy, critics and ratio network at each fifth of training."""
        for percent in SNAPSHOT_PERCENTS[self.next_snapshot :]:
            if env_steps * 100 < percent * self.config.env_steps:
                return
            snapshots = self.group.snapshots()
            for run in self.live_runs():
                path = snapshot_file(self.folder, percent, self.config.seeds[run])
                save_arrays(path, {**snapshots[run], **self.bounds})
            self.next_snapshot += 1

    def save(self, position: Position) -> None:
        """Commit a checkpoint of everything that an exact resume needs."""
        if self.phase is not None:
            self._settle(self.phase, position.env_steps)
        seeds = [str(seed) for seed in self.config.seeds]
        runners = [self.runners[run] for run in range(len(seeds))]
        log_facts = self.log.facts()
        facts: dict[str, Any] = {
            **position._asdict(),
            "next_snapshot": self.next_snapshot,
            **log_facts,
            "wall_seconds": self.log.wall_seconds(),
            "runners": {seed: runner.facts for seed, runner in zip(seeds, runners, strict=True)},
            "segments": {
                seed: rows.facts() for seed, rows in zip(seeds, self.segments, strict=True)
            },
            **(self.phase.facts() if self.phase else NO_PHASE),
            "stopped": {seeds[run]: reason for run, reason in self.stopped.items()},
            "config": self.config_file,
        }
        arrays = [
            {f"learner.{name}": array for name, array in state.items()}
            | {"episode.actions": runner.actions, "episode.obs": runner.obs}
            | (self.phase.arrays(run) if self.phase else {})
            for run, (state, runner) in enumerate(zip(self.group.export(), runners, strict=True))
        ]
        files = {f"seed-{seed}.safetensors": a for seed, a in zip(seeds, arrays, strict=True)}
        name = checkpoint_name(position.env_steps, position.updates)
        save_checkpoint(self.folder, name, facts, files)
        self._drop_rows_before(self.last_saved)  # the older one of the two that are kept
        self.last_saved = facts

    def _drop_rows_before(self, facts: dict[str, Any]) -> None:
        for run in self.live_runs() if facts else ():
            own = facts["segments"][str(self.config.seeds[run])]
            self.segments[run].drop_before(own, self.config.capacity)

    def _restore(self, checkpoint: Checkpoint, allow_inexact: bool) -> Position:
        facts = self.last_saved = checkpoint.facts
        position = Position(facts["env_steps"], facts["updates"], facts["phase_start"])
        self.next_snapshot = facts["next_snapshot"]
        seeds = [str(seed) for seed in self.config.seeds]
        try:
            arrays = [checkpoint.arrays[f"seed-{seed}.safetensors"] for seed in seeds]
            self.runners = {
                run: RunnerState(facts["runners"][seed], own["episode.actions"], own["episode.obs"])
                for run, (seed, own) in enumerate(zip(seeds, arrays, strict=True))
            }
        except KeyError as missing:
            raise Damaged(f"{checkpoint.path} holds no {missing}.") from None
        rows = [
            segments.restore(facts["segments"][seed], self.config.capacity)
            for seed, segments in zip(seeds, self.segments, strict=True)
        ]
        self.group.restore([part(own, "learner.") for own in arrays], rows, position.env_steps)
        self.stopped = {seeds.index(seed): reason for seed, reason in facts["stopped"].items()}
        live = {run: self.runners[run] for run in self.live_runs()}
        self.runners |= self.collector.restore(live, allow_inexact)
        self.phase = restored_phase(facts, arrays)
        if facts["config"]["config"].get("env_steps") != self.config.env_steps:
            self._retake_snapshots(position.phase_start if self.phase else position.env_steps)
        return position

    def _retake_snapshots(self, env_steps: int) -> None:
        """A run that is extended takes those anew that lie ahead now."""
        total = self.config.env_steps
        self.next_snapshot = sum(env_steps * 100 >= p * total for p in SNAPSHOT_PERCENTS)
        for percent in SNAPSHOT_PERCENTS[self.next_snapshot :]:
            for seed in self.config.seeds:
                snapshot_file(self.folder, percent, seed).unlink(missing_ok=True)
