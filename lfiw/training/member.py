"""One method in training, on the host: its environments, log and files. The trainer says when."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial

import numpy as np

from lfiw.acting.collector import Collector, PolicyArrays
from lfiw.acting.episodes import Evaluated
from lfiw.acting.evaluator import Evaluator, eval_seeds
from lfiw.acting.rollout import Collected
from lfiw.learning.team import Arrays, Calls, SavedRuns
from lfiw.runs.checkpoint import keep_newest
from lfiw.runs.config_file import read_config
from lfiw.runs.files import save_arrays
from lfiw.runs.layout import SNAPSHOT_PERCENTS, snapshot_file
from lfiw.runs.log import RunLog
from lfiw.runs.policies import save_policies
from lfiw.runs.read import read_metrics
from lfiw.runs.rows import (
    Row,
    ended_row,
    eval_row,
    rounded,
    stopped_row,
    train_row,
    warning_row,
)
from lfiw.runs.segments import Segments
from lfiw.training.callback import Evaluation
from lfiw.training.guard import Guard
from lfiw.training.jobs import Entrant
from lfiw.training.phase import Phase, Position, sickness
from lfiw.training.saving import Best, Saved, load, save

OF_RETURNS = ("return_mean", "return_std", "length_mean")

Ask = Callable[[Evaluation], bool]  # whether a run goes on after it


class Member:
    """The runs of one method and their folder; what is kept of each run is listed by run."""

    def __init__(
        self,
        entrant: Entrant,
        evaluator: Evaluator,
        collector: Collector,
        log: RunLog,
        segments: Sequence[Segments],
        saved: Saved | None,  # the checkpoint that training goes on from
        ask: Ask | None = None,
    ) -> None:
        self.entrant, self.config, self.folder = entrant, entrant.config, entrant.folder
        self.evaluator, self.collector, self.log, self.segments = (
            evaluator,
            collector,
            log,
            segments,
        )
        self.config_file = read_config(self.folder)
        self.policies: Sequence[PolicyArrays] = ()
        self.runners = dict(enumerate(saved.runners)) if saved else collector.opened
        self.ask = ask
        self.stopped = dict(saved.stopped) if saved else {}  # sick runs and what they have
        self.ended = dict(saved.ended) if saved else {}  # on purpose, and why
        # What checkpoints keep of runs that were ended, whose slots learn on from nothing.
        self.ended_learners = {run: saved.learners[run] for run in saved.ended} if saved else {}
        self.evaluated: dict[int, Evaluation] = {}  # the newest that nobody was asked about
        self.best = dict(saved.best) if saved else {}
        self.phase = saved.phase if saved else None
        self.guards = {seed: Guard(self.config) for seed in self.config.seeds}
        for row in read_metrics(self.folder):  # of runs that go on
            if row["kind"] == "train" and row["seed"] in self.guards:
                self.guards[row["seed"]].look(row)
        self.next_snapshot = saved.next_snapshot if saved else 0
        self.last_segments = saved.segments if saved else ()  # of the newest checkpoint
        if saved:
            live = {run: self.runners[run] for run in self.live_runs()}
            self.runners |= collector.restore(live, entrant.job.allow_inexact)
            if saved.config_file["config"].get("env_steps") != self.config.env_steps:
                self._retake_snapshots(saved)
        for run in self.best:  # a file may be of what came after the checkpoint
            self._save_best(run)

    def live_runs(self) -> list[int]:
        gone = self.stopped.keys() | self.ended.keys()
        return [run for run in range(len(self.config.seeds)) if run not in gone]

    def collect(self, count: int, random: bool) -> dict[int, Collected]:
        """Environment steps of all runs; nothing is kept before all members have theirs."""
        policies = {run: None if random else self.policies[run] for run in self.live_runs()}
        return self.collector.collect(policies, count)

    def begin_phase(self, collected: dict[int, Collected], count: int) -> np.ndarray:
        """Keep what was collected; returns the rows of all runs [R, count, row_size]."""
        num_runs = len(self.config.seeds)
        rows = np.zeros((num_runs, count, self.entrant.spec.row_size), np.float32)
        self.phase = Phase([[] for _ in range(num_runs)], [[] for _ in range(num_runs)])
        for run, own in collected.items():
            rows[run] = own.rows
            self.segments[run].append(own.rows)
            self.runners[run] = own.state
            self.phase.episodes[run], self.phase.faults[run] = own.episodes, own.faults
        return rows

    def take_policies(self, policies: Sequence[PolicyArrays], calls: Calls, env_steps: int) -> None:
        """What the calls of a phase led to. Runs that they made sick are stopped: no longer
        collected, logged or evaluated, though their slots learn on."""
        self.policies = policies
        for run in self.live_runs():
            reason = sickness(policies[run], [call[run] for call in calls])
            if reason is None:
                continue
            seed = self.config.seeds[run]
            self.stopped[run] = reason
            keep_newest(self.folder, f"stopped-seed-{seed}")
            times = {"wall_seconds": self.log.wall_seconds()}
            self.log.append(stopped_row(seed, env_steps, reason) | times)

    def finish_phase(
        self, position: Position, calls: Calls, snapshots: Callable[[], Sequence[Arrays]]
    ) -> bool:
        """Log the phase, and keep snapshots and evaluate when it is time; says whether that has
        ended a run."""
        assert self.phase is not None
        self._log_phase(self.phase, calls, position)
        self.phase = None
        self._snapshot_when_due(position.env_steps, snapshots)
        finished = position.env_steps >= self.config.env_steps
        if not (finished or position.crossed(self.config.eval_every_env_steps)):
            return False
        self._evaluate(position)
        return self._end_runs()

    def _log_phase(self, phase: Phase, calls: Calls, position: Position) -> None:
        seconds = time.monotonic() - phase.started
        env_steps, updates, start = position
        live = self.live_runs()
        rate = len(live) * (env_steps - start) / seconds
        for run in live:
            own = [call[run] for call in calls]
            seed, episodes, faults = self.config.seeds[run], phase.episodes[run], phase.faults[run]
            row = train_row(seed, env_steps, updates, own, episodes, faults)
            times = {"steps_per_second": rate, "wall_seconds": self.log.wall_seconds()}
            self.log.append(row | times)
            for sign in self.guards[seed].look(row):
                self.log.append(warning_row(seed, env_steps, sign))

    def _snapshot_when_due(self, env_steps: int, snapshots: Callable[[], Sequence[Arrays]]) -> None:
        """Policy, critics and ratio network at each fifth of training."""
        for percent in SNAPSHOT_PERCENTS[self.next_snapshot :]:
            if env_steps * 100 < percent * self.config.env_steps:
                return
            networks = snapshots()
            for run in self.live_runs():
                path = snapshot_file(self.folder, percent, self.config.seeds[run])
                save_arrays(path, {**networks[run], **self.entrant.bounds})
            self.next_snapshot += 1

    def _retake_snapshots(self, saved: Saved) -> None:
        """A run that is extended takes those anew that lie ahead now."""
        env_steps = saved.position.phase_start if saved.phase else saved.position.env_steps
        total = self.config.env_steps
        self.next_snapshot = sum(env_steps * 100 >= p * total for p in SNAPSHOT_PERCENTS)
        for percent in SNAPSHOT_PERCENTS[self.next_snapshot :]:
            for seed in self.config.seeds:
                snapshot_file(self.folder, percent, seed).unlink(missing_ok=True)

    def save_policies(self) -> None:
        policies = {self.config.seeds[run]: self.policies[run] for run in self.live_runs()}
        save_policies(self.folder, policies, self.entrant.bounds)

    def _evaluate(self, position: Position) -> None:
        self.save_policies()
        for run in self.live_runs():
            seed = self.config.seeds[run]
            episodes = eval_seeds(
                seed,
                self.config.eval_episodes,
                position.env_steps if self.config.eval_starts == "varied" else None,
            )
            future = self.evaluator.submit(self.policies[run], episodes)
            to_row = partial(self._take_evaluation, run, position, self.policies[run])
            self.log.append((future, to_row))

    def _take_evaluation(
        self, run: int, position: Position, policy: PolicyArrays, evaluated: Evaluated
    ) -> Row:
        """The row of an evaluation; its policy is kept if none before was better."""
        seed, env_steps = self.config.seeds[run], position.env_steps
        row = eval_row(seed, env_steps, *evaluated)
        if evaluated.episodes:
            # As the log has them, so that a resumed run decides alike.
            numbers = {name: rounded(row[name]) for name in OF_RETURNS}
            best = self.best.get(run)
            is_best = best is None or numbers["return_mean"] > best.return_mean
            if is_best:
                self.best[run] = Best(numbers["return_mean"], policy)
                self._save_best(run)
            self.evaluated[run] = Evaluation(
                folder=self.folder,
                method=self.folder.name,
                env=self.config.env.id,
                seed=seed,
                env_steps=env_steps,
                updates=position.updates,
                returns=tuple(episode.total_reward for episode in evaluated.episodes),
                is_best=is_best,
                **numbers,
            )
        return row | {"wall_seconds": self.log.wall_seconds()}

    def _save_best(self, run: int) -> None:
        policies = {self.config.seeds[run]: self.best[run].policy}
        save_policies(self.folder, policies, self.entrant.bounds, "best")

    def _end_runs(self) -> bool:
        """End those that the user wants to end after this evaluation, and say whether there are
        any. Training waits for the evaluation, or where a run ends would depend on timing."""
        if self.ask is None and self.config.stop_at_return is None:
            return False
        self.log.flush(wait=True)
        live = len(self.live_runs())
        for run in self.live_runs():
            evaluation = self.evaluated.pop(run, None)  # none where it failed
            reason = evaluation and self._reason_to_end(evaluation)
            if evaluation and reason:
                self.ended[run] = reason
                times = {"wall_seconds": self.log.wall_seconds()}
                self.log.append(ended_row(evaluation.seed, evaluation.env_steps, reason) | times)
        return len(self.live_runs()) < live

    def _reason_to_end(self, evaluation: Evaluation) -> str | None:
        goes_on = self.ask is None or self.ask(evaluation)
        goal = self.config.stop_at_return
        if goal is not None and evaluation.return_mean >= goal:
            return f"its return {evaluation.return_mean:g} has reached stop_at_return {goal:g}"
        return None if goes_on else "on_evaluation returned False"

    def save(self, position: Position, learners: Sequence[Arrays], calls: Calls) -> None:
        """Commit a checkpoint."""
        log = self.log.facts()  # which waits for evaluations
        # The first checkpoint after the end of a run is made right then.
        self.ended_learners = {run: learners[run] for run in self.ended} | self.ended_learners
        saved = Saved(
            position=position,
            next_snapshot=self.next_snapshot,
            log=log | {"wall_seconds": self.log.wall_seconds()},
            runners=[self.runners[run] for run in range(len(self.config.seeds))],
            segments=[segments.facts() for segments in self.segments],
            learners=[self.ended_learners.get(run, own) for run, own in enumerate(learners)],
            phase=self.phase,
            calls=calls if self.phase else [],
            stopped=self.stopped,
            ended=self.ended,
            best=self.best,
            config_file=self.config_file,
        )
        save(self.folder, self.config.seeds, saved)
        for run in self.live_runs() if self.last_segments else ():
            # Rows that neither this one nor the one before it needs.
            self.segments[run].drop_before(self.last_segments[run], self.config.capacity)
        self.last_segments = saved.segments


def open_member(
    entrant: Entrant,
    evaluator: Evaluator,
    num_workers: int,
    stack: ExitStack,
    ask: Ask | None = None,
) -> tuple[Member, Position, SavedRuns | None]:
    """Take hold of everything, at the start or where the checkpoint left it; returns what the runs
    come back from on the device."""
    config, folder, checkpoint = entrant.config, entrant.folder, entrant.job.checkpoint
    # Before the first step all follows from the config.
    begun = checkpoint is not None and checkpoint.facts["env_steps"] > 0
    saved = load(checkpoint, config.seeds) if checkpoint and begun else None
    log_bytes, seconds = (saved.log["log_bytes"], saved.log["wall_seconds"]) if saved else (0, 0.0)
    row_size = entrant.spec.row_size
    segments = [
        stack.enter_context(closing(Segments(folder / "ring" / f"seed-{seed}", row_size)))
        for seed in config.seeds
    ]
    log = RunLog(folder, entrant.progress.on_row, log_bytes, seconds)
    stack.enter_context(closing(log))
    collector = stack.enter_context(closing(Collector(config.env, config.seeds, num_workers)))
    if saved is None:
        member = Member(entrant, evaluator, collector, log, segments, None, ask)
        return member, Position(), None
    rows = [
        own.restore(facts, config.capacity)
        for own, facts in zip(segments, saved.segments, strict=True)
    ]
    member = Member(entrant, evaluator, collector, log, segments, saved, ask)
    return member, saved.position, SavedRuns(saved.learners, rows, saved.calls)
