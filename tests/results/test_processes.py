"""Many folders are read by several processes, where a process may be copied."""

import os
import subprocess
import sys

import pytest

from lfiw.results import processes
from lfiw.results.processes import map_in_processes

SCRIPT = """
import os, threading
from lfiw.errors import InputError
from lfiw.results.processes import map_in_processes

def known(value):
    if value == 99:
        raise InputError("99 is too much.")
    return value * value, os.getpid()

found = map_in_processes(known, range(40))
assert [square for square, _ in found] == [value * value for value in range(40)]
assert os.getpid() not in {process for _, process in found}
try:
    map_in_processes(known, range(70, 100))
except InputError as error:
    print(error)
waiting = threading.Event()
threading.Thread(target=waiting.wait).start()
assert {process for _, process in map_in_processes(known, range(40))} == {os.getpid()}
waiting.set()
"""


def test_order_errors_and_threads() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core")
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert ran.stdout == "99 is too much.\n"


def test_few_are_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "may_fork", lambda: True)
    assert set(map_in_processes(lambda _: os.getpid(), range(processes.MANY - 1))) == {os.getpid()}
