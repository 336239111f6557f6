"""Collecting: which worker steps which run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lfiw.acting.faults import Faults
from lfiw.acting.policy import ActionScale
from lfiw.acting.rollout import Collected, RunnerState
from lfiw.acting.worker import WorkerError, make_worker
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.types import EnvSpec

PolicyArrays = Mapping[str, np.ndarray]


def probe(config: EnvConfig, in_process: bool = False) -> tuple[EnvSpec, ActionScale]:
    """As `probe_env`, where an environment that hangs or dies takes nothing else with it."""
    worker = make_worker(config, in_process)
    try:
        worker.start("probe")
        spec, scale = worker.result()
    except WorkerError as error:
        raise InputError(f"{config.id} cannot be stepped: {error}.") from None
    finally:
        worker.close(grace_seconds=0)
    return spec, scale


def probe_all(
    configs: Sequence[EnvConfig], in_process: bool = False
) -> list[tuple[EnvSpec, ActionScale]]:
    """`probe` of each; equal environments are tried once."""
    distinct = {repr(config): config for config in configs}
    found = {name: probe(config, in_process) for name, config in distinct.items()}
    return [found[repr(config)] for config in configs]


class Collector:
    """Steps the training environments of a method's runs, each in its own order.

    Run i lives in worker i mod W. What a run collects depends on its seed and its policies
    alone, never on the number of workers. A worker that dies or hangs is replaced; the
    episodes of its runs end there, and what they collected in that call is collected anew.
    """

    def __init__(self, config: EnvConfig, seeds: Sequence[int], num_workers: int) -> None:
        self._config = config
        self._seeds = dict(enumerate(seeds))
        self._env_steps = 0
        self._in_process = num_workers == 0
        count = max(1, min(num_workers, len(seeds)))
        self.workers = [make_worker(config, self._in_process) for _ in range(count)]
        try:
            self.opened: dict[int, RunnerState] = self._ask("open", self._seeds)[0]
        except BaseException:
            self.close()
            raise

    def collect(
        self, policies: Mapping[int, PolicyArrays | None], count: int
    ) -> dict[int, Collected]:
        """`count` transitions of each of the given runs (run index -> its policy, or None for
        uniform actions)."""
        answers, failures = self._ask("collect", policies, count)
        self._env_steps += count
        return {
            run: part._replace(faults=failures[run] + part.faults) for run, part in answers.items()
        }

    def restore(
        self, states: Mapping[int, RunnerState], allow_inexact: bool = False
    ) -> dict[int, RunnerState]:
        """Bring environments back to where they were; returns where they are."""
        self._env_steps = max((state.facts["env_steps"] for state in states.values()), default=0)
        return self._ask("restore", states, allow_inexact)[0]

    def _ask(
        self, method: str, values: Mapping[int, Any], *shared: Any
    ) -> tuple[dict[int, Any], dict[int, list[str]]]:
        """Call all workers, each with the values of its runs. Returns, by run, the answers and
        the failures of its worker."""
        for index, worker in enumerate(self.workers):
            worker.start(method, self._own(values, index), *shared)
        answers: dict[int, Any] = {}
        failures: dict[int, list[str]] = {}
        for index in range(len(self.workers)):
            own = self._own(values, index)
            answer, reasons = self._answer(index, method, own, *shared)
            answers |= answer
            failures |= dict.fromkeys(own, reasons)
        return {run: answers[run] for run in values}, failures

    def _own(self, values: Mapping[int, Any], worker: int) -> dict[int, Any]:
        return {run: value for run, value in values.items() if run % len(self.workers) == worker}

    def _answer(self, index: int, method: str, *arguments: Any) -> tuple[Any, list[str]]:
        """The answer to a call that was started; a worker that fails is replaced and asked
        again."""
        faults = Faults(self._config)
        while True:
            try:
                if faults.reasons:
                    self._restart(index, attempt=len(faults.reasons))
                    self.workers[index].start(method, *arguments)
                return self.workers[index].result(), faults.reasons
            except WorkerError as error:
                self.workers[index].close(grace_seconds=0)
                faults.add(str(error))

    def _restart(self, index: int, attempt: int) -> None:
        worker = self.workers[index] = make_worker(self._config, self._in_process)
        worker.start("open", self._own(self._seeds, index), self._env_steps, attempt)
        worker.result()

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
