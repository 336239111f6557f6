"""Training methods in lock-step: collect a phase, learn from it, log, evaluate, and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, TypeVar

import jax

from lfiw.acting.evaluator import Evaluator
from lfiw.agents import make_agent
from lfiw.errors import InputError, RunError
from lfiw.learning.learner import updates_in_call
from lfiw.learning.team import Team
from lfiw.runs.checkpoint import Checkpoint
from lfiw.training.member import Member
from lfiw.training.phase import Position

Result = TypeVar("Result")


class Stopped(Exception):
    """The user asked to stop; a checkpoint is committed."""


class Trainer:
    """The plain sequential loop of a team. Several teams train side by side by running their
    loops in threads: while one waits for the device, another steps environments. `turn` is
    held while learning; teams that share a device share one."""

    def __init__(
        self,
        members: Sequence[Member],
        devices: Sequence[jax.Device],
        turn: AbstractContextManager[object],
    ) -> None:
        self.members = members
        self.devices = devices
        self.turn = turn
        self.compiled = False
        self.config = config = members[0].config  # members agree in all that is read here
        period = make_agent(config.agent, members[0].spec, config.batch_size).period
        self.call_updates = updates_in_call(config, period)
        self.position = Position()
        self.saved_at = time.monotonic()

    def run(
        self,
        num_workers: int,
        evaluator: Evaluator,
        should_stop: Callable[[], bool],
        checkpoints: Sequence[Checkpoint | None],
        allow_inexact: bool = False,
    ) -> None:
        """Train to the end, from the start or from checkpoints of one position."""

        def open_member(member: Member, checkpoint: Checkpoint | None) -> Position:
            return member.open(
                stack, self.devices, num_workers, evaluator, checkpoint, allow_inexact
            )

        with ExitStack() as stack:
            self.threads = stack.enter_context(ThreadPoolExecutor(len(self.members), "member"))
            self.position = self._at_once(open_member, checkpoints)[0]
            self.team = Team([member.group for member in self.members])
            self.say("training")
            self._train(should_stop)
            self.say("done")

    def _at_once(self, work: Callable[..., Result], *arguments: Sequence[Any]) -> list[Result]:
        """`work` of every member with its arguments, side by side, when all have ended: they wait
        for workers, files and compilers of their own."""
        calls = zip(self.members, *arguments, strict=True)
        futures = [self.threads.submit(work, *call) for call in calls]
        wait(futures)
        return [future.result() for future in futures]

    def say(self, state: str) -> None:
        for member in self.members:
            member.progress.state = state

    def _move(self, position: Position) -> None:
        self.position = position
        for member in self.members:
            member.show(position)

    def _train(self, should_stop: Callable[[], bool]) -> None:
        # A checkpoint may have been made between two calls of a phase.
        while self._goes_on() or self._members_in_phase():
            if not self._members_in_phase():
                self._collect()
            self._learn(should_stop)
            for member in self._members_in_phase():
                member.finish_phase(self.position)
            if self.position.env_steps < self.config.env_steps and self._checkpoint_due():
                self._save()
        self.say("evaluating")
        for member in self.members:
            member.save_policies()
        self._save()

    def _goes_on(self) -> bool:
        some_live = any(member.live_runs() for member in self.members)
        return some_live and self.position.env_steps < self.config.env_steps

    def _members_in_phase(self) -> list[Member]:
        return [member for member in self.members if member.phase is not None]

    def _collect(self) -> None:
        config, env_steps = self.config, self.position.env_steps
        random = env_steps < config.random_env_steps
        end = min(config.random_env_steps, config.env_steps) if random else config.env_steps
        count = min(config.phase_env_steps, end - env_steps)
        try:
            collected = self._at_once(lambda member: member.collect(count, random))
        except (InputError, RunError):
            self._save()  # of where training stood before: no member has kept anything
            raise
        self._at_once(lambda member, own: member.begin_phase(own, count), collected)
        self._move(Position(env_steps + count, self.position.updates, phase_start=env_steps))

    def _updates_due(self) -> int:
        config, position = self.config, self.position
        if position.env_steps < config.learning_starts:
            return 0
        trained_steps = position.env_steps - config.learning_starts
        return int(trained_steps * config.updates_per_env_step) - position.updates

    def _learn(self, should_stop: Callable[[], bool]) -> None:
        """Whole calls of updates; what is left over is due in the next phase."""
        # Compiling takes no turn: all teams do it at once.
        with self.turn if self.compiled else nullcontext():
            while not (stopping := should_stop()) and self._updates_due() >= self.call_updates:
                position = self.position
                metrics = self.team.learn(position.env_steps, position.updates)
                self.compiled = True
                self._move(position._replace(updates=position.updates + self.call_updates))
                for member, own in zip(self.members, metrics, strict=True):
                    member.took_call(own)
        if stopping:
            self.say("saving")
            self._save()
            raise Stopped

    def _checkpoint_due(self) -> bool:
        when = self.config.checkpoint
        if when.every_env_steps is not None and self.position.crossed(when.every_env_steps):
            return True
        minutes = (time.monotonic() - self.saved_at) / 60
        return when.every_minutes is not None and minutes >= when.every_minutes

    def _save(self) -> None:
        for member in self.members:
            member.save(self.position)
        self.saved_at = time.monotonic()
