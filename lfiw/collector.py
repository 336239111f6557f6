"""The host side of collecting and evaluating: which worker steps which run. No jax here."""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from lfiw.env_config import EnvConfig
from lfiw.faults import Faults
from lfiw.rollout import Collected, Episode, RunnerState
from lfiw.rollout_host import Evaluated
from lfiw.worker import LocalWorker, ProcessWorker, Worker, WorkerError

PolicyArrays = Mapping[str, np.ndarray]


class Batch(NamedTuple):
    """What a group of runs collected in one phase."""

    rows: np.ndarray  # [R, n, row_size] packed transitions
    episodes: list[list[Episode]]  # those that ended, per run
    faults: list[list[str]]  # what went wrong, per run; each cost an episode


def make_worker(config: EnvConfig, in_process: bool) -> Worker:
    return LocalWorker(config) if in_process else ProcessWorker(config)


class Collector:
    """Steps the training environments of a group of runs, each in its own order.

    Run i lives in worker i mod W. What a run collects depends on its seed and its policies
    alone, never on the number of workers. A worker that dies or hangs is replaced; the
    episodes of its runs end there, and what they collected in that call is collected anew.
    """

    def __init__(self, config: EnvConfig, seeds: Sequence[int], num_workers: int) -> None:
        self.config = config
        self.seeds = seeds
        self.env_steps = 0
        self._in_process = num_workers == 0
        count = max(1, min(num_workers, len(seeds)))
        self.workers = [make_worker(config, self._in_process) for _ in range(count)]
        try:
            self._states: list[RunnerState] = self._ask("open", seeds)[0]
        except BaseException:
            self.close()
            raise

    def _ask(
        self, method: str, values: Sequence[Any], *shared: Any
    ) -> tuple[list[Any], list[list[str]]]:
        """Call all workers, each with the values of its runs. Returns the answers, and the
        failures of the worker, of every run."""
        for index, worker in enumerate(self.workers):
            worker.start(method, self._own(values, index), *shared)
        answers: dict[int, Any] = {}
        failures: dict[int, list[str]] = {}
        for index in range(len(self.workers)):
            own = self._own(values, index)
            answer, reasons = self._answer(index, method, own, *shared)
            answers |= answer
            failures |= dict.fromkeys(own, reasons)
        runs = range(len(self.seeds))
        return [answers[run] for run in runs], [failures[run] for run in runs]

    def _own(self, values: Sequence[Any], worker: int) -> dict[int, Any]:
        return {run: values[run] for run in range(worker, len(values), len(self.workers))}

    def _answer(self, index: int, method: str, *arguments: Any) -> tuple[Any, list[str]]:
        """The answer to a call that was started; a worker that fails is replaced and asked
        again."""
        faults = Faults(self.config)
        while True:
            try:
                if faults.reasons:
                    self._restart(index, attempt=len(faults.reasons))
                    self.workers[index].start(method, *arguments)
                return self.workers[index].result(), faults.reasons
            except WorkerError as error:
                faults.add(str(error))

    def _restart(self, index: int, attempt: int) -> None:
        self.workers[index].close(grace_seconds=0)
        worker = self.workers[index] = make_worker(self.config, self._in_process)
        worker.start("open", self._own(self.seeds, index), self.env_steps, attempt)
        worker.result()

    def collect(self, policies: Sequence[PolicyArrays | None], count: int) -> Batch:
        """`count` transitions of every run."""
        answers, lost = self._ask("collect", policies, count)
        collected: list[Collected] = answers
        self._states = [part.state for part in collected]
        self.env_steps += count
        return Batch(
            np.stack([part.rows for part in collected]),
            [part.episodes for part in collected],
            [before + part.faults for before, part in zip(lost, collected, strict=True)],
        )

    def states(self) -> list[RunnerState]:
        """Where the environment of every run stood after the last call that succeeded."""
        return self._states

    def restore(self, states: Sequence[RunnerState], allow_inexact: bool = False) -> None:
        self.env_steps = states[0].facts["env_steps"]
        self._states, _ = self._ask("restore", states, allow_inexact)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


class Evaluator:
    """Runs evaluation episodes in workers of its own, so training never waits for them."""

    def __init__(self, config: EnvConfig, num_workers: int) -> None:
        self._config = config
        self._in_process = num_workers == 0
        self._threads = ThreadPoolExecutor(max(1, num_workers), "evaluator")
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def submit(self, arrays: PolicyArrays, seeds: Sequence[int]) -> Future[Evaluated]:
        if not self._in_process:
            return self._threads.submit(self._evaluate, arrays, seeds)
        done: Future[Evaluated] = Future()
        done.set_result(self._evaluate(arrays, seeds))
        return done

    def _evaluate(self, arrays: PolicyArrays, seeds: Sequence[int]) -> Evaluated:
        """The episodes; after a worker died or hung, all of them in another one."""
        faults = Faults(self._config)
        while True:
            worker = self._idle_worker()
            try:
                worker.start("evaluate", arrays, seeds)
                evaluated: Evaluated = worker.result()
            except WorkerError as error:
                worker.close(grace_seconds=0)
                faults.add(str(error))
            except BaseException:
                worker.close()
                raise
            else:
                self._idle.put(worker)
                return Evaluated(evaluated.episodes, faults.reasons + evaluated.faults)

    def _idle_worker(self) -> Worker:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return make_worker(self._config, self._in_process)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().close()
