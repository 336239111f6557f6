"""Evaluation: whole episodes of the policies, in workers of their own."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from lfiw.acting.collector import PolicyArrays
from lfiw.acting.episodes import Evaluated
from lfiw.acting.faults import Faults
from lfiw.acting.rollout import EVAL_STREAM, stream
from lfiw.acting.worker import Worker, WorkerError, make_worker
from lfiw.env_config import EnvConfig
from lfiw.errors import RunError


def eval_seeds(seed: int, episodes: int, env_steps: int | None) -> list[int]:
    """The reset seeds of the evaluation after `env_steps`, the same for every method; without
    them those of all evaluations of a run that keeps its starts. Training draws its own from
    another stream."""
    purpose = (EVAL_STREAM,) if env_steps is None else (EVAL_STREAM, env_steps)
    return [int(value) for value in stream(seed, *purpose).integers(2**31, size=episodes)]


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
        """Without any episode where the environment failed for good: training will stop by
        itself if it cannot go on."""
        try:
            return self._run_episodes(arrays, seeds)
        except RunError as error:
            return Evaluated([], [str(error)])

    def _run_episodes(self, arrays: PolicyArrays, seeds: Sequence[int]) -> Evaluated:
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
                return evaluated._replace(faults=faults.reasons + evaluated.faults)

    def _idle_worker(self) -> Worker:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return make_worker(self._config, self._in_process)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().close()
