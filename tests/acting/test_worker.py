import dataclasses
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import PATIENCE, alive, finish, import_path, wait_for, wait_until_gone

from lfiw.acting.worker import LocalWorker, ProcessWorker, WorkerError
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError, RunError


def faulty(fault: str, at: int = 3, **more: Any) -> EnvConfig:
    kwargs = {"fault": fault, "at": at, **more}
    return EnvConfig("environments:make_faulty", kwargs, timeout_seconds=PATIENCE)


@pytest.fixture(params=[LocalWorker, ProcessWorker])
def make_worker(request: Any) -> Iterator[Any]:
    opened = []

    def make(config: EnvConfig) -> Any:
        opened.append(request.param(config))
        return opened[-1]

    yield make
    for worker in opened:
        worker.close()


def call(worker: Any, method: str, *arguments: Any) -> Any:
    worker.start(method, *arguments)
    return worker.result()


def test_worker_collects_and_evaluates(make_worker: Any) -> None:
    worker = make_worker(EnvConfig("environments:make_diary", {"length": 2}))
    call(worker, "open", {0: 3, 2: 5})
    collected = call(worker, "collect", {0: None, 2: None}, 4)
    assert set(collected) == {0, 2}
    assert [episode.length for episode in collected[0].episodes] == [2, 2]
    assert not np.array_equal(collected[0].rows, collected[2].rows)
    arrays = {
        "deterministic.0.weight": np.zeros((3, 1), np.float32),
        "deterministic.0.bias": np.zeros(1, np.float32),
    }
    evaluated = call(worker, "evaluate", arrays, [1, 2, 3])
    assert [episode.length for episode in evaluated.episodes] == [2] * 3


def test_bad_environment_is_an_input_error(make_worker: Any) -> None:
    worker = make_worker(EnvConfig("environments:make_broken"))
    with pytest.raises(InputError, match="the cable is loose"):
        call(worker, "open", {0: 0})


def test_non_finite_value_is_an_input_error(make_worker: Any) -> None:
    worker = make_worker(faulty("obs"))
    call(worker, "open", {0: 0})
    with pytest.raises(InputError, match="environments:make_faulty produced a non-finite next_obs"):
        call(worker, "collect", {0: None}, 5)


def test_exception_costs_one_episode(make_worker: Any) -> None:
    """Of the second episode two steps are taken; the new environment knows of one alone."""
    worker = make_worker(faulty("raise", at=6))
    call(worker, "open", {0: 0, 1: 1})
    collected = call(worker, "collect", {0: None, 1: None}, 7)
    for part in collected.values():
        np.testing.assert_array_equal(part.rows[:, 1], [0, 1, 2, 0, 1, 0, 1])  # the time
        assert [episode.length for episode in part.episodes] == [3]
        (fault,) = part.faults
        assert fault.startswith("RuntimeError: the left wheel came off (environments.py:")


def test_sentence_carries_the_traceback_of_the_environment(make_worker: Any) -> None:
    """As its cause, which Python shows before it; a sentence alone has none."""
    worker = make_worker(EnvConfig("environments:make_broken"))
    with pytest.raises(InputError, match="the cable is loose") as raised:
        call(worker, "probe")
    cause = str(raised.value.__cause__)
    assert "in make_broken" in cause and "RuntimeError: the cable" in cause
    worker = make_worker(EnvConfig("environments:make_wrong_shape"))
    with pytest.raises(InputError) as raised:
        call(worker, "probe")
    assert raised.value.__cause__ is None


def test_too_many_exceptions_are_a_run_error(make_worker: Any) -> None:
    worker = make_worker(dataclasses.replace(faulty("raise", at=1), max_faults=3))
    call(worker, "open", {0: 0})
    with pytest.raises(RunError) as raised:
        call(worker, "collect", {0: None}, 5)
    assert re.fullmatch(
        r"environments:make_faulty failed 4 times within one phase or evaluation, more than "
        r"env.max_faults 3 allows; the last time: RuntimeError: the left wheel came off "
        r"\(environments.py:\d+\)\.",
        str(raised.value),
    )


def test_reset_that_raises_is_tried_again(make_worker: Any) -> None:
    """At step 3 the second episode would start."""
    worker = make_worker(faulty("reset raises", at=3))
    call(worker, "open", {0: 0})
    collected = call(worker, "collect", {0: None}, 5)[0]
    np.testing.assert_array_equal(collected.rows[:, 1], [0, 1, 2, 0, 1])
    assert [episode.length for episode in collected.episodes] == [3]
    (fault,) = collected.faults
    assert fault.startswith("RuntimeError: the start button is stuck (environments.py:")


def test_worker_that_exits_is_reported() -> None:
    worker = ProcessWorker(faulty("exit"))
    call(worker, "open", {0: 0})
    with pytest.raises(WorkerError, match="exit code 7"):
        call(worker, "collect", {0: None}, 5)
    with pytest.raises(WorkerError, match="exit code 7"):
        call(worker, "collect", {0: None}, 5)
    worker.close()


def test_killed_worker_is_reported() -> None:
    worker = ProcessWorker(EnvConfig("environments:make_report"))
    call(worker, "open", {0: 0})
    pid = int(call(worker, "collect", {0: None}, 1)[0].rows[0, 0])
    assert pid != os.getpid()
    worker.start("collect", {0: None}, 10**6)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="died with exit code -9"):
        worker.result()
    worker.close()


def test_worker_that_hangs_is_reported() -> None:
    worker = ProcessWorker(faulty("hang"))
    call(worker, "open", {0: 0})
    worker._timeout = 0.5  # from now on: the start may take its time
    with pytest.raises(WorkerError, match=r"silent for 0\.5 s"):
        call(worker, "collect", {0: None}, 5)
    worker.close(grace_seconds=0)
    assert worker._process.returncode == -signal.SIGKILL


def test_long_call_is_no_hang() -> None:
    """When the last step begins, the first lies further back than the time-out."""
    worker = ProcessWorker(EnvConfig("environments:make_slow", {"seconds": 0.2}))
    call(worker, "open", {0: 0})
    worker.start("collect", {0: None}, 10)
    wait_for(worker._connection.poll)  # a sign of life: the steps have begun
    long_ago = worker._called - 2 * PATIENCE
    worker._called = worker._silent_since = long_ago
    worker._timeout = PATIENCE
    assert len(worker.result()[0].rows) == 10
    assert worker._silent_since > long_ago + PATIENCE
    worker.close()


def test_time_between_calls_is_no_hang() -> None:
    worker = ProcessWorker(faulty("nothing"))
    call(worker, "open", {0: 0})
    worker._called = worker._silent_since = worker._called - 2 * PATIENCE
    assert len(call(worker, "collect", {0: None}, 1)[0].rows) == 1
    worker.close()


def test_close_ends_a_worker_that_hangs(tmp_path: Path) -> None:
    worker = ProcessWorker(faulty("hang", told=str(tmp_path)))
    call(worker, "open", {0: 0})
    worker.start("collect", {0: None}, 5)
    wait_for(lambda: list(tmp_path.iterdir()))
    worker.close(grace_seconds=0.1)
    assert worker._process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_worker_ignores_what_stops_its_parent(name: signal.Signals) -> None:
    """Ctrl-C reaches the whole process group; only the parent decides what it means."""
    worker = ProcessWorker(EnvConfig("environments:make_report"))
    call(worker, "open", {0: 0})
    pid = int(call(worker, "collect", {0: None}, 1)[0].rows[0, 0])
    os.kill(pid, name)
    assert len(call(worker, "collect", {0: None}, 3)[0].rows) == 3
    worker.close()


def test_worker_needs_no_jax_and_one_blas_thread() -> None:
    worker = ProcessWorker(EnvConfig("environments:make_report"))
    call(worker, "open", {0: 0})
    pid, jax_imported, blas_threads = call(worker, "collect", {0: None}, 1)[0].rows[0, :3]
    assert pid != os.getpid()
    assert not jax_imported
    assert blas_threads == 1
    worker.close()


def test_local_worker_has_one_blas_thread() -> None:
    worker = LocalWorker(EnvConfig("environments:make_report"))
    call(worker, "open", {0: 0})
    pid, _, blas_threads = call(worker, "collect", {0: None}, 1)[0].rows[0, :3]
    assert pid == os.getpid()
    assert blas_threads == 1


@pytest.mark.parametrize("state", ["idle", "hang", "hang in C"])
def test_workers_exit_when_the_parent_is_killed(tmp_path: Path, state: str) -> None:
    kwargs = {"fault": state, "at": 3, "told": str(tmp_path)}
    script = f"""
import signal
from lfiw.env_config import EnvConfig
from lfiw.acting.worker import ProcessWorker
config = EnvConfig("environments:make_faulty", {kwargs})
workers = [ProcessWorker(config) for _ in range(2)]
for worker in workers:
    worker.start("open", {{0: 0}})
    worker.result()
    if {state != "idle"}:
        worker.start("collect", {{0: None}}, 5)
print(*(worker._process.pid for worker in workers), flush=True)
signal.pause()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": import_path()},
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    if state != "idle":
        wait_for(lambda: {int(path.name) for path in tmp_path.iterdir()} == {*pids})
    assert all(map(alive, pids))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until_gone(pids)


SIGNALLED = """
import os, signal
from lfiw.env_config import EnvConfig
from lfiw.acting.worker import ProcessWorker

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: None)
worker = ProcessWorker(EnvConfig("environments:make_diary"))
os.killpg(0, signal.SIGTERM)  # before Python has even started there
os.killpg(0, signal.SIGINT)
worker.start("open", {0: 0})
print(*worker.result())
worker.close()
"""


def test_signals_to_the_group_are_not_for_workers() -> None:
    """Ctrl-C while one starts: it would be taken for a fault, and be in the log for ever."""
    process = subprocess.Popen(
        [sys.executable, "-c", SIGNALLED],
        env=os.environ | {"PYTHONPATH": import_path()},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert finish(process) == "0\n"
