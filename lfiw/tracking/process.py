"""The process that follows method folders for one tracker: `python -m lfiw.tracking.process`.

Its standard input ends when the training does. It writes lines for the user to a pipe, and an
empty line whenever it got somewhere, so that whoever waits for it knows that it does not hang.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from lfiw.runs.layout import parts_of
from lfiw.runs.lock import locked
from lfiw.runs.read import is_begun
from lfiw.tracking import tracker
from lfiw.tracking.follow import Follower, place_of
from lfiw.wording import one_line

LOOK_SECONDS = 2.0
RETRY_SECONDS = 60.0
RECORD_SECONDS = 600.0  # for one episode, on a slow machine without a GPU
MAX_REASON_LETTERS = 300
DONE, INCOMPLETE = 0, 3  # exit codes; with any other it has not said why


class Talk:
    """What whoever started this process reads, as long as anybody does."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self.last = time.monotonic()

    def say(self, sentence: str) -> None:
        self._write(one_line(sentence))

    def beat(self) -> None:
        self._write("")

    def _write(self, line: str) -> None:
        self.last = time.monotonic()
        try:
            os.write(self._pipe, f"{line}\n".encode())
        except OSError:
            return


class Process:
    """Folders that are there or are to come, and one tracker."""

    def __init__(self, name: str, folders: list[Path], ended: threading.Event, talk: Talk) -> None:
        self.name, self.folders, self.ended, self.talk = name, folders, ended, talk
        self.followers: dict[Path, Follower] = {}
        self.locks = ExitStack()
        self.said = ""

    def run(self) -> int:
        while True:
            last = self.ended.is_set()  # asked before looking, so that nothing comes between
            try:
                if self.look():
                    continue
                if last:
                    return self.finish()
            except (Exception, SystemExit) as error:
                if last:
                    return self.give_up(error)
                self.complain(error)
                self.ended.wait(RETRY_SECONDS)
            self.ended.wait(LOOK_SECONDS)

    def look(self) -> bool:
        """Send what is new in all folders, also where one of them fails."""
        moved, failure = False, None
        for folder in self.folders:
            for part in filter(is_begun, parts_of(folder)):
                try:
                    moved = self.follower(part).advance() or moved
                except (Exception, SystemExit) as error:
                    failure = error
                self.talk.beat()
        if failure is not None:
            raise failure
        return moved

    def follower(self, part: Path) -> Follower:
        if part not in self.followers:
            open_run = tracker(self.name)
            place = place_of(part, self.name)
            place.mkdir(parents=True, exist_ok=True)
            with ExitStack() as lock:
                # Held until the end: two that follow for the same tracker would send all twice.
                lock.enter_context(locked(place))
                self.followers[part] = Follower(part, self.name, open_run)
                self.locks.push(lock.pop_all())
        return self.followers[part]

    def finish(self) -> int:
        with tempfile.TemporaryDirectory() as scratch:
            for folder in self.folders:
                if folder in self.followers:
                    self.show_episode(self.followers[folder], Path(scratch))
            for follower in self.followers.values():
                for _ in follower.close():
                    self.talk.beat()
        return DONE

    def show_episode(self, follower: Follower, scratch: Path) -> None:
        """One of the first seed; where none can be recorded, that is said and no more."""
        if (seed := follower.lacks_video()) is None:
            return
        folder = Path(tempfile.mkdtemp(dir=scratch))
        video = folder / f"seed-{seed}-at-{follower.last_step(seed)}.mp4"
        reason = self.record(follower.folder, seed, video)
        if reason is None:
            follower.show(seed, video)
            self.talk.beat()
        else:
            self.talk.say(f"No video of {follower.folder} for {self.name}: {reason}")

    def record(self, folder: Path, seed: int, video: Path) -> str | None:
        """Why not; an environment may do to its process whatever it likes."""
        command = [sys.executable, "-P", "-m", "lfiw", "record", str(folder)]
        process = subprocess.Popen(
            [*command, "--seed", str(seed), "--out", str(video)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        give_up = time.monotonic() + RECORD_SECONDS
        while True:
            try:
                _, errors = process.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                self.talk.beat()
            if time.monotonic() > give_up:
                process.kill()
                process.communicate()
                return f"it was not recorded within {RECORD_SECONDS:g} s."
        if process.returncode == 0 and video.is_file():
            return None
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it failed."]
        return last[0].removeprefix("lfiw: ")

    def complain(self, error: BaseException) -> None:
        """Once for each kind of failure."""
        if (reason := described(error)) != self.said:
            self.said = reason
            self.talk.say(
                f"{self.name} failed and is tried again every {RETRY_SECONDS:g} s, while the "
                f"training goes on: {reason}"
            )

    def give_up(self, error: BaseException) -> int:
        self.talk.say(f"{self.name} has not got all rows: {described(error)}")
        return INCOMPLETE


def described(error: BaseException) -> str:
    words = [f"{type(error).__name__}:", *str(error).split()]
    return one_line(" ".join(words).removesuffix(":"), MAX_REASON_LETTERS)


def wait_for_end(ended: threading.Event, talk: Talk, parent: int, patience: float) -> None:
    """Of the training, and then of this process, should nobody be left to end it."""
    while sys.stdin.buffer.read(1024):
        pass
    ended.set()
    while os.getppid() == parent or time.monotonic() - talk.last < patience:
        time.sleep(0.5)
    os._exit(INCOMPLETE)


def main() -> None:
    parent = os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM):  # the end of the input decides
        signal.signal(number, signal.SIG_IGN)
    name, patience, pipe, *folders = sys.argv[1:]
    talk, ended = Talk(int(pipe)), threading.Event()
    arguments = (ended, talk, parent, float(patience))
    threading.Thread(target=wait_for_end, args=arguments, daemon=True).start()
    code = Process(name, list(map(Path, folders)), ended, talk).run()
    os._exit(code)  # what libraries would do at exit may hang


if __name__ == "__main__":
    main()
