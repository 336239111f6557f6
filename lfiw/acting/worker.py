"""Worker processes, and the same work in this process.

A worker is started as `python -m lfiw.acting.worker`, not forked, so the caller needs no
`__main__` guard and no thread of jax is ever copied.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection, Pipe
from typing import Any

from threadpoolctl import threadpool_limits

from lfiw.acting.faults import describe
from lfiw.acting.server import EnvServer
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError, RunError

PARENT_CHECK_SECONDS = 1.0
BEAT_SECONDS = 0.5  # at most one sign of life in this time
START_SECONDS = 120.0  # for Python and its imports, on a machine that is busy with others
CLOSE_SECONDS = 5.0
PR_SET_PDEATHSIG = 1  # of Linux


class WorkerError(Exception):
    """A worker failed, died or hangs; the message says how. Another may take its place."""


class EnvTraceback(Exception):
    """The traceback of an environment in another process, as the cause of what is raised here."""


class LocalWorker:
    """The interface of a worker, in this process: for debugging, `--workers 0`. An environment
    that hangs here hangs for ever."""

    def __init__(self, config: EnvConfig) -> None:
        self._server = EnvServer(config)
        self._answer: tuple[str, Any] = ("value", None)

    def start(self, method: str, *arguments: Any) -> None:
        # One BLAS thread, as in the worker processes: the same bits.
        with threadpool_limits(1, "blas"):
            self._answer = answer(self._server, method, arguments)

    def result(self) -> Any:
        return value_of(self._answer)

    def close(self, grace_seconds: float = CLOSE_SECONDS) -> None:
        self._server.close()


class ProcessWorker:
    """A worker in a process of its own."""

    def __init__(self, config: EnvConfig) -> None:
        self._timeout = config.timeout_seconds
        self._connection, theirs = Pipe()
        threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(threads, "1")
        self._process = subprocess.Popen(
            # -P: modules are looked for where this process does, not in the current folder first.
            [sys.executable, "-P", "-m", "lfiw.acting.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            # What environments print would tear the live table: `--workers 0` shows it.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C goes to a whole group: this process decides
        )
        theirs.close()
        self._called = time.monotonic()
        self._silent_since = self._called + START_SECONDS
        self._send(config)

    def start(self, method: str, *arguments: Any) -> None:
        self._called = time.monotonic()
        self._silent_since = max(self._silent_since, self._called)
        self._send((method, arguments))

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError):  # it died, and `result` will say so
            self._connection.send(message)

    def result(self) -> Any:
        """What the call returned. A worker is taken to hang when it has been silent for longer
        than an environment may take for one step, however long the call takes."""
        while True:
            patience = self._silent_since + self._timeout - time.monotonic()
            try:
                if not self._connection.poll(max(patience, 0)):
                    raise WorkerError(f"A worker was silent for {self._timeout:g} s")
                kind, value = self._connection.recv()
            except (EOFError, OSError):
                code = self._process.wait()
                raise WorkerError(f"A worker process died with exit code {code}") from None
            if kind != "alive":
                return value_of((kind, value))
            self._silent_since = max(self._called, value)

    def close(self, grace_seconds: float = CLOSE_SECONDS) -> None:
        """End the process, by force unless it ends by itself within the time given."""
        self._connection.close()
        try:
            self._process.wait(timeout=grace_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


Worker = LocalWorker | ProcessWorker


def make_worker(config: EnvConfig, in_process: bool) -> Worker:
    return LocalWorker(config) if in_process else ProcessWorker(config)


def answer(server: EnvServer, method: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    """The outcome of a call in a form that can be sent."""
    try:
        return "value", getattr(server, method)(*arguments)
    except InputError as error:
        return "input error", (str(error), cause_of(error))
    except RunError as error:
        return "run error", (str(error), cause_of(error))
    except Exception as error:
        return "failure", (describe(error), cause_of(error))


def cause_of(error: Exception) -> str:
    """The traceback of what raised inside an environment; nothing where a sentence says all."""
    raised = error.__cause__ if isinstance(error, InputError | RunError) else error
    return "" if raised is None else "".join(traceback.format_exception(raised))


def value_of(outcome: tuple[str, Any]) -> Any:
    kind, value = outcome
    if kind == "value":
        return value
    sentence, cause = value
    kinds = {"input error": InputError, "run error": RunError, "failure": WorkerError}
    raise kinds[kind](sentence) from (EnvTraceback(f"\n{cause}") if cause else None)


class Heart:
    """Tells the other end, now and then, that environments are being stepped."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last = 0.0

    def beat(self) -> None:
        now = time.monotonic()  # one clock for all processes of a machine
        if now - self._last > BEAT_SECONDS:
            self._last = now
            try:
                self._connection.send(("alive", now))
            except OSError:
                raise SystemExit from None  # nobody waits for this call any more


def serve(connection: Connection) -> None:
    """Answer calls until the other end closes."""
    heart = Heart(connection)
    heart.beat()
    server = EnvServer(connection.recv(), heart.beat)
    while True:
        try:
            method, arguments = connection.recv()
            connection.send(answer(server, method, arguments))
        except (EOFError, OSError):
            return


def exit_with_parent() -> None:
    """A worker never outlives its parent, even while an environment hangs."""
    if sys.platform == "linux":  # works also where an environment never lets this thread run
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=wait_for_end_of_parent, args=(os.getppid(),), daemon=True).start()


def wait_for_end_of_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)


def main() -> None:
    for name in (signal.SIGINT, signal.SIGTERM):  # the parent decides
        signal.signal(name, signal.SIG_IGN)
    exit_with_parent()
    serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
