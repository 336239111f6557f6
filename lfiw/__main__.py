"""The command `lfiw`, also as `python -m lfiw`."""

import signal


def main() -> None:
    """Ctrl-C while modules are still being imported ends the command without a traceback."""
    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.SIG_IGN:  # as after nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lfiw.cli import main as run

    signal.signal(signal.SIGINT, previous)
    run()


if __name__ == "__main__":
    main()
