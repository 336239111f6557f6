"""The command `lfiw`, also as `python -m lfiw`."""

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Ctrl-C while modules are still being imported ends the command without a traceback."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: nobody reads it
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.SIG_IGN:  # as after nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lfiw.cli import main as run

    signal.signal(signal.SIGINT, previous)
    run()


if __name__ == "__main__":
    main()
