"""Worker processes, and the same work in this process. No jax here.

A worker is started as `python -m lfiw.worker`, not forked, so the caller needs no
`__main__` guard and no thread of jax is ever copied.
"""

from __future__ import annotations

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

from lfiw.env_config import EnvConfig
from lfiw.errors import InputError, RunError
from lfiw.rollout import RolloutHost

PARENT_CHECK_SECONDS = 1.0


class WorkerError(RunError):
    """A worker failed or died; the message says how."""


class LocalWorker:
    """The interface of a worker, in this process: for debugging, `--workers 0`."""

    def __init__(self, config: EnvConfig) -> None:
        self._host = RolloutHost(config)
        self._result: Any = None

    def start(self, method: str, *arguments: Any) -> None:
        # One BLAS thread, as in the worker processes: the same bits.
        with threadpool_limits(1, "blas"):
            self._result = getattr(self._host, method)(*arguments)

    def result(self) -> Any:
        return self._result

    def close(self) -> None:
        self._host.close()


class ProcessWorker:
    """A worker in a process of its own."""

    def __init__(self, config: EnvConfig) -> None:
        self._connection, theirs = Pipe()
        threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(threads, "1")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lfiw.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            # What environments print would tear the live table: `--workers 0` shows it.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        self._connection.send(config)

    def start(self, method: str, *arguments: Any) -> None:
        try:
            self._connection.send((method, arguments))
        except OSError:
            raise WorkerError(self._obituary()) from None

    def result(self) -> Any:
        try:
            kind, value = self._connection.recv()
        except (EOFError, OSError):
            raise WorkerError(self._obituary()) from None
        if kind == "input error":
            raise InputError(value)
        if kind == "error":
            raise WorkerError(f"An environment failed in its worker:\n{value}")
        return value

    def _obituary(self) -> str:
        code = self._process.wait()
        return f"A worker process died with exit code {code}."

    def close(self) -> None:
        self._connection.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


Worker = LocalWorker | ProcessWorker


def serve(connection: Connection) -> None:
    """Answer calls until the other end closes."""
    host = RolloutHost(connection.recv())
    while True:
        try:
            method, arguments = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer: tuple[str, Any] = ("value", getattr(host, method)(*arguments))
        except InputError as error:
            answer = ("input error", str(error))
        except Exception:
            answer = ("error", traceback.format_exc())
        try:
            connection.send(answer)
        except OSError:
            return


def exit_with_parent() -> None:
    """A worker never outlives its parent, even while an environment hangs."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    threading.Thread(target=exit_with_parent, daemon=True).start()
    serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
