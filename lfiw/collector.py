"""The host side of collecting and evaluating: which worker steps which run. No jax here."""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from lfiw.env_config import EnvConfig
from lfiw.rollout import Collected, Episode, RunnerState
from lfiw.worker import LocalWorker, ProcessWorker, Worker

PolicyArrays = Mapping[str, np.ndarray]


def make_worker(config: EnvConfig, in_process: bool) -> Worker:
    return LocalWorker(config) if in_process else ProcessWorker(config)


class Collector:
    """Steps the training environments of a group of runs, each in its own order.

    Run i lives in worker i mod W. What a run collects depends on its seed and its policies
    alone, never on the number of workers.
    """

    def __init__(self, config: EnvConfig, seeds: Sequence[int], num_workers: int) -> None:
        self.num_runs = len(seeds)
        count = max(1, min(num_workers, len(seeds)))
        self.workers = [make_worker(config, num_workers == 0) for _ in range(count)]
        try:
            for index, worker in enumerate(self.workers):
                worker.start("open", {run: seeds[run] for run in self._runs_of(index)})
            for worker in self.workers:
                worker.result()
        except BaseException:
            self.close()
            raise

    def _runs_of(self, worker: int) -> range:
        return range(worker, self.num_runs, len(self.workers))

    def collect(
        self, policies: Sequence[PolicyArrays | None], count: int
    ) -> tuple[np.ndarray, list[list[Episode]]]:
        """Packed transitions [R, count, row_size] and the episodes that ended, per run."""
        for index, worker in enumerate(self.workers):
            worker.start("collect", {run: policies[run] for run in self._runs_of(index)}, count)
        collected: dict[int, Collected] = {}
        for worker in self.workers:
            collected |= worker.result()
        ordered = [collected[run] for run in range(self.num_runs)]
        return np.stack([part.rows for part in ordered]), [part.episodes for part in ordered]

    def states(self) -> list[RunnerState]:
        """Where the environment of every run stands."""
        for worker in self.workers:
            worker.start("states")
        found: dict[int, RunnerState] = {}
        for worker in self.workers:
            found |= worker.result()
        return [found[run] for run in range(self.num_runs)]

    def restore(self, states: Sequence[RunnerState], allow_inexact: bool = False) -> None:
        for index, worker in enumerate(self.workers):
            chosen = {run: states[run] for run in self._runs_of(index)}
            worker.start("restore", chosen, allow_inexact)
        for worker in self.workers:
            worker.result()

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

    def submit(self, arrays: PolicyArrays, seeds: Sequence[int]) -> Future[list[Episode]]:
        if not self._in_process:
            return self._threads.submit(self._evaluate, arrays, seeds)
        done: Future[list[Episode]] = Future()
        done.set_result(self._evaluate(arrays, seeds))
        return done

    def _evaluate(self, arrays: PolicyArrays, seeds: Sequence[int]) -> list[Episode]:
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = make_worker(self._config, self._in_process)
        try:
            worker.start("evaluate", arrays, seeds)
            episodes: list[Episode] = worker.result()
        except BaseException:
            worker.close()
            raise
        self._idle.put(worker)
        return episodes

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().close()
