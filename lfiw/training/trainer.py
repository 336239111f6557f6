"""Training methods in lock-step: collect a phase, learn from it, log, evaluate, and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cache, partial
from typing import Any, TypeVar

import jax

from lfiw.acting.evaluator import Evaluator
from lfiw.agents import make_agent
from lfiw.errors import InputError, RunError
from lfiw.learning.learner import updates_in_call
from lfiw.learning.programs import Programs
from lfiw.learning.team import Arrays, SavedRuns, Team, placement
from lfiw.runs.seal import seal
from lfiw.training.devices import hardware
from lfiw.training.jobs import Entrant
from lfiw.training.member import Ask, Member, open_member
from lfiw.training.phase import Position

Result = TypeVar("Result")


class Stopped(Exception):
    """The user asked to stop; a checkpoint is committed."""


class Trainer:
    """The plain sequential loop of a team: its members act on the host, and the team learns on the
    device. Several trainers run side by side in threads: while one waits for the device, another
    steps environments. `turn` is held while learning; teams that share a device share one."""

    def __init__(
        self,
        entrants: Sequence[Entrant],
        devices: Sequence[jax.Device],
        turn: AbstractContextManager[object],
        programs: Programs,
    ) -> None:
        self.entrants = entrants
        self.programs = programs
        self.devices = devices
        self.turn = turn
        self.configs = [entrant.config for entrant in entrants]
        self.config = config = self.configs[0]  # they agree in all that is read here
        period = make_agent(config.agent, entrants[0].spec, config.batch_size).period
        self.call_updates = updates_in_call(config, period)
        self.members: Sequence[Member] = ()
        self.position = Position()
        self.compiled = False
        self.saved_at = time.monotonic()

    def circumstances(self) -> list[dict[str, Any]]:
        """What is recorded of how each method is trained."""
        return [
            {
                "updates_in_call": self.call_updates,
                "placement": placed,
                "team": [entrant.folder.name for entrant in self.entrants],
                "hardware": hardware(self.devices),
            }
            for placed in placement(self.configs, self.devices)
        ]

    def run(
        self,
        num_workers: int,
        evaluator: Evaluator,
        should_stop: Callable[[], bool],
        ask: Ask | None = None,
    ) -> None:
        """Train to the end, from the start or from checkpoints of one position."""
        with ExitStack() as stack:
            self.threads = stack.enter_context(ThreadPoolExecutor(len(self.entrants), "member"))
            tools: dict[str, Any] = {"evaluator": evaluator, "num_workers": num_workers}
            self._open(partial(open_member, **tools, stack=stack, ask=ask))
            self.say("training")
            self._train(should_stop)
            self.say("done")

    def _open(
        self, open_member: Callable[[Entrant], tuple[Member, Position, SavedRuns | None]]
    ) -> None:
        self.members, positions, saved = zip(
            *self._at_once(open_member, self.entrants), strict=True
        )
        self.team = Team(self.configs, self.entrants[0].spec, self.devices, self.programs)
        position = positions[0]
        if position.env_steps > 0:
            self.team.restore(saved, position.env_steps)
        for member, policies in zip(self.members, self.team.policies(), strict=True):
            member.policies = policies
        self._move(position)

    def _at_once(self, work: Callable[..., Result], *arguments: Sequence[Any]) -> list[Result]:
        """`work` with each of the arguments, side by side, when all have ended: they wait for
        workers, files and compilers of their own."""
        futures = [self.threads.submit(work, *call) for call in zip(*arguments, strict=True)]
        wait(futures)
        return [future.result() for future in futures]

    def say(self, state: str) -> None:
        for entrant in self.entrants:
            entrant.progress.state = state

    def _move(self, position: Position) -> None:
        self.position = position
        for entrant in self.entrants:
            entrant.progress.env_steps, entrant.progress.updates = (
                position.env_steps,
                position.updates,
            )

    def _train(self, should_stop: Callable[[], bool]) -> None:
        # A checkpoint may have been made between two calls of a phase.
        while self._goes_on() or self._in_phase():
            if not self._in_phase():
                self._collect()
            self._learn(should_stop)
            ended = self._finish_phase()
            if self._goes_on() and (ended or self._checkpoint_due()):
                self._save()
        self.say("evaluating")
        for member in self.members:
            member.save_policies()
        self._save()
        for member in self.members:
            seal(member.folder)

    def _goes_on(self) -> bool:
        some_live = any(member.live_runs() for member in self.members)
        return some_live and self.position.env_steps < self.config.env_steps

    def _in_phase(self) -> list[Member]:
        """All members or none; some, where a kill fell between their checkpoints."""
        return [member for member in self.members if member.phase is not None]

    def _collect(self) -> None:
        config, env_steps = self.config, self.position.env_steps
        random = env_steps < config.random_env_steps
        end = min(config.random_env_steps, config.env_steps) if random else config.env_steps
        count = min(config.phase_env_steps, end - env_steps)
        try:
            collected = self._at_once(lambda member: member.collect(count, random), self.members)
        except (InputError, RunError):
            self._save()  # of where training stood before: no member has kept anything
            raise
        rows = self._at_once(
            lambda member, own: member.begin_phase(own, count), self.members, collected
        )
        self.team.add(rows)
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
            if not self.compiled and self._updates_due() >= self.call_updates:
                self.say("compiling")
            while not (stopping := should_stop()) and self._updates_due() >= self.call_updates:
                position = self.position
                self.team.learn(position.env_steps, position.updates)
                if not self.compiled:
                    self.compiled = True
                    self.say("training")
                self._move(position._replace(updates=position.updates + self.call_updates))
        if stopping:
            self.say("saving")
            self._settle()
            self._save()
            raise Stopped

    def _settle(self) -> None:
        """Wait for what the calls of the phase led to."""
        learned = zip(self.members, self.team.policies(), self.team.calls(), strict=True)
        for member, policies, calls in learned:
            member.take_policies(policies, calls, self.position.env_steps)

    def _finish_phase(self) -> bool:
        """Whether a run has ended with it."""
        self._settle()
        snapshots = cache(self.team.snapshots)  # of all methods, once, if one is due

        def snapshots_of(index: int) -> list[Arrays]:
            return snapshots()[index]

        ended = [
            member.finish_phase(self.position, calls, partial(snapshots_of, index))
            for index, (member, calls) in enumerate(
                zip(self.members, self.team.calls(), strict=True)
            )
            if member.phase is not None
        ]
        return any(ended)

    def _checkpoint_due(self) -> bool:
        when = self.config.checkpoint
        if when.every_env_steps is not None and self.position.crossed(when.every_env_steps):
            return True
        minutes = (time.monotonic() - self.saved_at) / 60
        return when.every_minutes is not None and minutes >= when.every_minutes

    def _save(self) -> None:
        saved = zip(self.members, self.team.export(), self.team.calls(), strict=True)
        for member, learners, calls in saved:
            member.save(self.position, learners, calls)
        self.saved_at = time.monotonic()
