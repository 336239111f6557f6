"""The command `lfiw`, also as `python -m lfiw`."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

INTERRUPTED = 130


def stop(number: int, frame: FrameType | None) -> None:
    """SIGTERM is as Ctrl-C; training, once it has begun, saves first. While a module is imported
    the command ends here: what is half imported may turn an exception into another one."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            say_stopped()
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def say_stopped() -> None:
    with suppress(OSError):  # nobody reads it
        os.write(2, b"lfiw: stopped.\n")


def command() -> Callable[[], None]:
    """The command line, or a sentence where only policies are deployed."""
    try:
        from lfiw.cli import main
    except ModuleNotFoundError as error:
        if (error.name or "lfiw").partition(".")[0] == "lfiw":
            raise
        from lfiw.extras import install_command

        sys.exit(f"lfiw: the command needs {error.name}: {install_command()}")
    return main


def main() -> None:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: nobody reads it
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as after nohup
            signal.signal(number, stop)
    try:
        from lfiw.import_path import leave_method_folders

        leave_method_folders()
        command()()
    except KeyboardInterrupt:  # where the command itself does not answer it
        say_stopped()
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
