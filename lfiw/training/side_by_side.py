"""Teams that train at the same time, a thread each, until all are done or the user stops them."""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from lfiw.acting.evaluator import Evaluator
from lfiw.errors import InputError, RunError
from lfiw.machine import in_notebook
from lfiw.training.callback import Desk, OnEvaluation
from lfiw.training.display import show_progress
from lfiw.training.member import Member
from lfiw.training.trainer import Stopped, Trainer


@contextmanager
def stop_on_signal(stop: threading.Event) -> Iterator[None]:
    """SIGINT and SIGTERM stop training at the next call; a second one ends at once, unless it
    interrupts a notebook, whose other variables the user would lose."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: Any) -> None:
        if stop.is_set() and not (number == signal.SIGINT and in_notebook()):
            os._exit(128 + number)
        stop.set()

    previous = {name: signal.signal(name, on_signal) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in previous.items():
            signal.signal(name, handler)


def train_side_by_side(
    trainers: Sequence[Trainer],
    num_workers: int,
    console: Console,
    on_evaluation: OnEvaluation | None = None,
) -> None:
    """One thread per team: while one waits for the device, another steps environments."""
    stop = threading.Event()
    desk = Desk(on_evaluation, stop.set) if on_evaluation else None
    failures: dict[str, BaseException] = {}
    entrants = [entrant for trainer in trainers for entrant in trainer.entrants]
    total_runs = sum(len(entrant.config.seeds) for entrant in entrants)
    title = ", ".join(dict.fromkeys(entrant.config.env.id for entrant in entrants))
    envs = {repr(entrant.config.env): entrant.config.env for entrant in entrants}
    evaluators = {name: Evaluator(env, min(num_workers, total_runs)) for name, env in envs.items()}

    def run(trainer: Trainer) -> None:
        try:
            evaluator = evaluators[repr(trainer.config.env)]
            trainer.run(num_workers, evaluator, stop.is_set, desk.ask if desk else None)
        except Stopped:
            trainer.say("stopped")
        except BaseException as error:
            trainer.say("failed")
            failures[" and ".join(entrant.progress.name for entrant in trainer.entrants)] = error

    threads = [threading.Thread(target=run, args=[trainer]) for trainer in trainers]
    with stop_on_signal(stop):
        for thread in threads:
            thread.start()
        try:
            show_progress(
                lambda: title,
                [entrant.progress for entrant in entrants],
                lambda: any(thread.is_alive() for thread in threads),
                console,
                stop.is_set,
                desk.serve if desk else time.sleep,
            )
        except BaseException:  # nobody can read it any more: save, as after a signal
            stop.set()
            raise
        finally:
            if desk:
                desk.close()
            for thread in threads:
                thread.join()
            for evaluator in evaluators.values():
                evaluator.close()
    if desk and desk.failure:
        raise desk.failure
    _raise_failures(failures)
    if stop.is_set():
        raise KeyboardInterrupt(resume_hint([entrant.folder for entrant in entrants]))
    _report_stopped([member for trainer in trainers for member in trainer.members])


def resume_hint(folders: Sequence[Path]) -> str:
    common = Path(os.path.commonpath([folder.absolute() for folder in folders]))
    here = Path.cwd()
    shown = common.relative_to(here) if common.is_relative_to(here) else common
    return f"`lfiw resume {shlex.quote(str(shown))}` goes on"


def _report_stopped(members: Sequence[Member]) -> None:
    """Training was worth finishing, but it is no success."""
    sick = [
        f"{member.entrant.progress.name} seed {member.config.seeds[run]} ({reason})"
        for member in members
        for run, reason in member.stopped.items()
    ]
    if sick:
        raise RunError(
            f"Stopped because their numbers were no longer finite: {', '.join(sick)}. All other "
            f"runs are complete."
        )


def _raise_failures(failures: dict[str, BaseException]) -> None:
    """One sentence for each; a failure that nobody foresaw is raised as it is."""
    sentences = []
    for name, error in failures.items():
        if isinstance(error, InputError | RunError):
            sentences.append(f"{name} stopped: {error}")
        elif isinstance(error, OSError):
            sentences.append(
                f"{name} stopped: {error.filename or 'a file'} cannot be written or read: "
                f"{error.strerror}; its last checkpoint is intact."
            )
        else:
            raise error
    if sentences:
        raise RunError(" ".join(sentences)) from next(iter(failures.values()))
