"""Trackers beside a training: a process for each, which can fail, hang and die as it likes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from lfiw.tracking.process import DONE, INCOMPLETE

PATIENCE_SECONDS = 60.0  # for a sign of life, once the training has ended
WAIT_SECONDS = 2.0  # before it is said what is waited for
POLL_SECONDS = 0.05


class TrackerProcess:
    def __init__(self, name: str, folders: Sequence[Path], say: Callable[[str], None]) -> None:
        self.name, self._folders, self._say = name, folders, say
        ours, theirs = os.pipe()
        options = [name, str(PATIENCE_SECONDS), str(theirs)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "lfiw.tracking.process", *options, *map(str, folders)],
                pass_fds=[theirs],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.PIPE,
                # What libraries print would tear the live table.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C goes to a whole group: the training decides
            )
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._heard = time.monotonic()
        self._listener = threading.Thread(target=self._listen, args=(ours,), daemon=True)
        self._listener.start()

    def _listen(self, pipe: int) -> None:
        with os.fdopen(pipe, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._heard = time.monotonic()
                if line.strip():
                    self._say(f"Note: {line.strip()}")

    def end(self) -> None:
        """Nothing more will come: it may send the rest."""
        self._heard = time.monotonic()
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()

    def wait(self) -> bool:
        """Until it has ended, or was silent for too long; says whether all is sent."""
        begun, said = time.monotonic(), False
        while self._process.poll() is None and self._silence() < PATIENCE_SECONDS:
            if not said and time.monotonic() - begun > WAIT_SECONDS:
                said = True
                self._say(f"Waiting for {self.name}; Ctrl-C ends the wait, and nothing is lost.")
            time.sleep(POLL_SECONDS)
        code = self._process.poll()
        if code == DONE:
            return True
        self.kill()
        if code is None:
            self._say(f"Note: {self.name} was silent for {PATIENCE_SECONDS:g} s and was ended.")
        elif code != INCOMPLETE:
            self._say(f"Note: the process of {self.name} died with exit code {code}.")
        self._say(f"`{later(self._folders, self.name)}` sends what {self.name} has not got.")
        return False

    def _silence(self) -> float:
        return time.monotonic() - self._heard

    def kill(self) -> None:
        """The process, unless all is done, and what it has started."""
        if self._process.poll() != DONE:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join(timeout=1)  # what was said is shown; somebody may hold the pipe


class Tracking:
    """Meanwhile the folders are followed, for each of these trackers."""

    def __init__(
        self, names: Sequence[str], folders: Sequence[Path], say: Callable[[str], None]
    ) -> None:
        self._names, self._folders, self._say = names, folders, say
        self._processes: list[TrackerProcess] = []
        self.incomplete: list[str] = []  # trackers that have not got everything, at the end

    def __enter__(self) -> Tracking:
        for name in self._names:
            try:
                self._processes.append(TrackerProcess(name, self._folders, self._say))
            except OSError as error:
                self._say(f"Note: no process can be started for {name}: {error.strerror}.")
                self.incomplete.append(name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            for process in self._processes:
                process.end()
            self.incomplete += [own.name for own in self._processes if not own.wait()]
        except KeyboardInterrupt:  # of the wait alone: the training has ended as it has
            self.incomplete += [own.name for own in self._processes]
            for name in self.incomplete:
                self._say(f"`{later(self._folders, name)}` sends the rest.")
        finally:
            for process in self._processes:
                process.kill()


def later(folders: Sequence[Path], name: str) -> str:
    """The command that sends the rest."""
    common = Path(os.path.commonpath([folder.absolute() for folder in folders]))
    here = Path.cwd()
    shown = common.relative_to(here) if common.is_relative_to(here) else common
    return f"lfiw track {shlex.quote(str(shown))} --to {name}"
