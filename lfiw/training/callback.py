"""Telling the user's code of evaluations, in the thread that called `lfiw.train`."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of one run, as `on_evaluation` is told of it."""

    folder: Path  # the method folder
    method: str  # its name: agent, strategy and label
    env: str
    seed: int
    env_steps: int  # trained so far
    updates: int
    return_mean: float  # as the log has it, with seven digits
    return_std: float
    length_mean: float
    returns: tuple[float, ...]  # of each episode
    is_best: bool  # above all evaluations of this run before


# Returning False ends the run; all else lets it go on.
OnEvaluation = Callable[[Evaluation], object]


class Desk:
    """Where training threads ask and one thread answers, one question after the other."""

    def __init__(self, on_evaluation: OnEvaluation, on_failure: Callable[[], None]) -> None:
        self._function = on_evaluation
        self._on_failure = on_failure
        self._questions: queue.SimpleQueue[tuple[Evaluation, Future[bool]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self.failure: BaseException | None = None  # what the function raised

    def ask(self, evaluation: Evaluation) -> bool:
        """Whether the run goes on; waits for the answer."""
        answer: Future[bool] = Future()
        with self._lock:
            if self._closed:
                return True
            self._questions.put((evaluation, answer))
        return answer.result()

    def serve(self, seconds: float) -> None:
        """Answer for so long. After a failure nothing is asked any more: training stops."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                evaluation, answer = self._questions.get(timeout=left)
            except queue.Empty:
                return
            answer.set_result(self._answer(evaluation))

    def _answer(self, evaluation: Evaluation) -> bool:
        if self.failure is not None:
            return True
        try:
            return self._function(evaluation) is not False
        except BaseException as error:  # raised again when all is saved
            self.failure = error
            self._on_failure()
            return True

    def close(self) -> None:
        """Nobody answers any more; whoever waits goes on."""
        with self._lock:
            self._closed = True
            while not self._questions.empty():
                self._questions.get()[1].set_result(True)
