"""Reading many folders on all cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from lfiw.machine import usable_cores

Given = TypeVar("Given")
Found = TypeVar("Found")

MANY = 20  # for which it is worth starting processes


def map_in_processes(function: Callable[[Given], Found], values: Sequence[Given]) -> list[Found]:
    """The function of each value, in order."""
    if len(values) < MANY or usable_cores() < 2 or not may_fork():
        return [function(value) for value in values]
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(usable_cores(), context, initializer=ignore_interrupts) as pool:
        return list(pool.map(function, values))


def may_fork() -> bool:
    """A copy of a process lacks its threads, and waits for ever for what they hold."""
    return hasattr(os, "fork") and threading.active_count() == 1 and "jax" not in sys.modules


def ignore_interrupts() -> None:
    """Ctrl-C reaches the whole group of processes; the first one answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
