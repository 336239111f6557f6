"""Trackers in processes of their own: what they do never reaches the training."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_tracker import NAME, FakeTracker
from hand_made import make_run
from processes import PATIENCE, alive, children_of, import_path, wait_for, wait_until_gone

from lfiw.runs.lock import locked
from lfiw.tracking import beside
from lfiw.tracking.beside import Tracking
from lfiw.tracking.follow import place_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_run(tmp_path / "runs" / "sac-uniform", "Task", "sac", "uniform").folder


def append(folder: Path, *steps: int) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        for env_steps in steps:
            row = {"kind": "eval", "seed": 0, "env_steps": env_steps, "return_mean": env_steps / 2}
            file.write(json.dumps(row) + "\n")


def steps(fake: FakeTracker) -> list[int]:
    return [env_steps for env_steps, _ in fake.curve("eval/mean_reward")]


def test_rows_come_while_training_goes_on(folder: Path, fake: FakeTracker) -> None:
    said: list[str] = []
    with Tracking([NAME], [folder], said.append) as tracking:
        append(folder, 100)
        wait_for(lambda: steps(fake) == [100])
        append(folder, 200)
        wait_for(lambda: steps(fake) == [100, 200])
        append(folder, 300)
    assert fake.curve("eval/mean_reward") == [(100, 50.0), (200, 100.0), (300, 150.0)]
    assert fake.curve("final_return") == [(300, 150.0)] and fake.curve("state")[-1][1]
    assert len(fake.told("finish")) == 1 and tracking.incomplete == []
    options = fake.told("init")[0]["options"]
    assert (options["project"], options["group"]) == ("lfiw", "Task/sac-uniform")
    assert options["config"]["env"]["id"] == "Task"
    assert not [line for line in said if line.startswith("Note")]


def test_folders_may_come_later(tmp_path: Path, fake: FakeTracker) -> None:
    """Those of a cluster, and seeds that are added to a method."""
    folder = tmp_path / "sac-uniform"
    with Tracking([NAME], [folder], print):
        make_run(folder, "Task", "sac", "uniform")
        append(folder, 100)
        wait_for(lambda: steps(fake) == [100])
        added = make_run(folder / "added" / "seed-0", "Task", "sac", "uniform").folder
        append(added, 700)
        wait_for(lambda: steps(fake) == [100, 700])


@pytest.mark.parametrize("fault", ["raises", "exits", "no import"])
def test_a_tracker_that_fails_is_told_the_rest_later(
    folder: Path, fake: FakeTracker, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("FAKE_FAULT", fault)
    said: list[str] = []
    append(folder, 100)
    with Tracking([NAME], [folder], said.append) as tracking:
        (note,) = wait_for(lambda: [line for line in said if "is tried again" in line])
        append(folder, 200)
        if fault == "raises":
            fake.mend()
    if fault == "raises":
        assert "ConnectionError: no route to [bold]the[/bold] host" in note
        assert tracking.incomplete == [] and steps(fake) == [100, 200]
        return
    assert tracking.incomplete == [NAME] and steps(fake) == []
    assert any("has not got all rows" in line for line in said)
    assert said[-1].startswith("`lfiw track ") and said[-1].split("`")[1].endswith("--to trackio")
    monkeypatch.setenv("FAKE_FAULT", "")
    with Tracking([NAME], [folder], print) as tracking:
        pass
    assert tracking.incomplete == [] and steps(fake) == [100, 200]


def test_a_tracker_that_dies_is_told_of(
    folder: Path, fake: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAULT", "dies")
    said: list[str] = []
    append(folder, 100)
    with Tracking([NAME], [folder], said.append) as tracking:
        pass
    assert tracking.incomplete == [NAME]
    assert f"died with exit code {-signal.SIGSEGV}" in said[-2]


def test_a_tracker_that_hangs_is_ended(
    folder: Path, fake: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAULT", "hangs")
    said: list[str] = []
    append(folder, 100)
    with Tracking([NAME], [folder], said.append) as tracking:
        (hung,) = wait_for(lambda: fake.told("hung"))
        monkeypatch.setattr(beside, "PATIENCE_SECONDS", 0.1)
    assert tracking.incomplete == [NAME] and not alive(hung["pid"])
    assert "was silent for 0.1 s" in said[-2]


def test_a_tracker_that_prints_and_handles_signals_reaches_nobody(
    folder: Path, fake: FakeTracker, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("FAKE_FAULT", "prints")
    handler = signal.getsignal(signal.SIGINT)
    append(folder, 100)
    with Tracking([NAME], [folder], lambda line: None):
        wait_for(lambda: steps(fake) == [100])
    assert signal.getsignal(signal.SIGINT) is handler
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_for_the_training_to_answer(
    folder: Path, fake: FakeTracker, number: int
) -> None:
    append(folder, 100)
    with Tracking([NAME], [folder], lambda line: None) as tracking:
        pid = wait_for(lambda: fake.told("log"))[0]["pid"]
        os.kill(pid, number)
        assert os.getpgid(pid) != os.getpgid(0)  # nor does Ctrl-C get there
        append(folder, 200)
    assert steps(fake) == [100, 200] and tracking.incomplete == []


PARENT = """
import sys, time
from pathlib import Path
from lfiw.tracking import beside
beside.PATIENCE_SECONDS = float(sys.argv[2])
with beside.Tracking(["trackio"], [Path(sys.argv[1])], print):
    time.sleep({patience})
"""


@pytest.mark.parametrize("fault", ["", "hangs"])
def test_no_process_outlives_a_training_that_is_killed(
    folder: Path, fake: FakeTracker, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Without a fault it sends the rest first."""
    monkeypatch.setenv("FAKE_FAULT", fault)
    append(folder, 100)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(patience=PATIENCE), str(folder), "0.1"],
        env=os.environ | {"PYTHONPATH": import_path()},
    )
    call = "hung" if fault else "log"
    wait_for(lambda: fake.told(call), parent)
    pids = list(children_of(parent.pid))
    parent.kill()
    parent.wait()
    wait_until_gone(pids)
    assert bool(pids) and (fault or fake.told("finish"))


def test_one_process_follows_for_a_tracker(folder: Path, fake: FakeTracker) -> None:
    append(folder, 100)
    place = place_of(folder, NAME)
    place.mkdir(parents=True)
    said: list[str] = []
    with locked(place), Tracking([NAME], [folder], said.append) as tracking:
        pass
    assert tracking.incomplete == [NAME] and fake.told("init") == []
    assert any("is being written by another process" in line for line in said)


def test_where_no_process_can_be_started_training_goes_on(
    folder: Path, fake: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(subprocess, "Popen", fails)
    said: list[str] = []
    with Tracking([NAME], [folder], said.append) as tracking:
        pass
    assert tracking.incomplete == [NAME]
    assert said == ["Note: no process can be started for trackio: Cannot allocate memory."]


def test_ctrl_c_in_the_wait_ends_it(
    folder: Path, fake: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was trained stays as good as it was."""
    monkeypatch.setenv("FAKE_FAULT", "hangs")
    said: list[str] = []
    append(folder, 100)

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    with Tracking([NAME], [folder], said.append) as tracking:
        (hung,) = wait_for(lambda: fake.told("hung"))
        monkeypatch.setattr(beside.time, "sleep", interrupt)
    monkeypatch.undo()
    assert tracking.incomplete == [NAME] and not alive(hung["pid"])
    assert said[-1].endswith("sends the rest.")
