"""A tracker that writes what it is told to a file, and misbehaves as the environment says."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

FOLDER = Path(os.environ["FAKE_TRACKER"])
FAULT = os.environ.get("FAKE_FAULT", "")

context_vars = SimpleNamespace(current_run=SimpleNamespace(set=lambda run: None))


def write(**entry) -> None:
    line = json.dumps({"pid": os.getpid(), **entry}) + "\n"
    with (FOLDER / "told.jsonl").open("a") as file:
        file.write(line)


def misbehave() -> None:
    """In every call, unless the fault was mended."""
    if (FOLDER / "mended").exists():
        return
    if FAULT == "raises":
        write(call="raised")
        raise ConnectionError("no route\nto [bold]the[/bold] host")
    if FAULT == "hangs":
        write(call="hung")
        while True:
            time.sleep(60)
    if FAULT == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    if FAULT == "exits":
        sys.exit("Log in first.")
    if FAULT == "prints":
        for stream in (sys.stdout, sys.stderr):
            print("noise " * 100_000, file=stream)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)


if FAULT == "no import":
    raise ImportError("trackio is half installed")


class Run:
    def __init__(self, name: str) -> None:
        self.name = name

    def log(self, metrics: dict, step: int) -> None:
        misbehave()
        write(call="log", run=self.name, step=step, metrics=metrics)

    def alert(self, title: str, text: str) -> None:
        write(call="alert", run=self.name, title=title, text=text)

    def finish(self) -> None:
        write(call="finish", run=self.name)


def init(**options) -> Run:
    misbehave()
    write(call="init", options=options)
    return Run(options["name"])


def Video(path: str) -> dict:  # noqa: N802 (the library's name)
    return {"video bytes": Path(path).stat().st_size}
