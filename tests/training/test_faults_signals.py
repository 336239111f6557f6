"""Signals, kills and rivals: F1, F5, F10, with real processes."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trainings import (
    ENV,
    HANG_GUARD,
    SETTINGS,
    command,
    contents,
    rows,
)

from lfiw.learning.config import AGENT_CONFIGS, REPLAY_CONFIGS
from lfiw.runs.verify import verify_run

STORE = Path(__file__).parents[2] / "results"
FOLDER = "environments-make_point"
METHODS = [(agent, replay) for agent in AGENT_CONFIGS for replay in REPLAY_CONFIGS]


def settings_for(replay: str) -> list[str]:
    """All of them for LFIW, none of its own for the others."""
    own = [setting for setting in SETTINGS if not setting.startswith("replay.")]
    own += [setting for setting in SETTINGS if setting.startswith("replay.")] * (replay == "lfiw")
    return own + ["replay.min_window=50"] * (replay == "ere")


def start(out: Path, agent: str, replay: str, env_steps: int) -> subprocess.Popen[str]:
    options = ("--agent", agent, "--replay", replay, "--env-steps", str(env_steps))
    settings = ("--set", *settings_for(replay))
    return command("train", ENV, *options, "--out", str(out), *settings)


# F1 (its short form, with two groups and workers, is in test_resume.py).


@pytest.mark.faults
@pytest.mark.parametrize(("agent", "replay"), METHODS)
def test_killed_twenty_times_the_run_ends_the_same(tmp_path: Path, agent: str, replay: str) -> None:
    """The moments are spread over the run: when its log has grown to a random length."""
    env_steps, kills = 20_000, 20
    whole = start(tmp_path / "whole", agent, replay, env_steps)
    output, _ = whole.communicate(timeout=HANG_GUARD * 10)
    assert whole.returncode == 0, output
    expected = tmp_path / "whole" / FOLDER / f"{agent}-{replay}"
    size = (expected / "metrics.jsonl").stat().st_size
    rng = random.Random(f"{agent} {replay}")
    run = tmp_path / "killed" / FOLDER / f"{agent}-{replay}"
    process = start(tmp_path / "killed", agent, replay, env_steps)
    for length in sorted(rng.uniform(0, 0.95 * size) for _ in range(kills)):
        log = run / "metrics.jsonl"
        while process.poll() is None and not (log.exists() and log.stat().st_size > length):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        output, _ = process.communicate(timeout=HANG_GUARD)
        assert process.returncode == -signal.SIGKILL, output
        assert verify_run(run)[0] == []
        process = command("resume", str(run))
    output, _ = process.communicate(timeout=HANG_GUARD * 10)
    assert process.returncode == 0, output
    assert rows(run) == rows(expected)
    assert contents(run) == contents(expected)


# F5: from the first moment at which the folder is there.


@pytest.mark.parametrize(
    "moments",
    [(0.0, 3.0), pytest.param(tuple(0.5 * n for n in range(24)), marks=pytest.mark.faults)],
)
def test_signals_commit_a_checkpoint(tmp_path: Path, moments: tuple[float, ...]) -> None:
    rng = random.Random(len(moments))
    for index, moment in enumerate(moments):
        out = tmp_path / str(index)
        process = start(out, "sac", "uniform", 10**6)
        wait_for_folder(process, out)
        time.sleep(moment + rng.uniform(0, 0.5))
        sent = time.monotonic()
        process.send_signal(rng.choice([signal.SIGTERM, signal.SIGINT]))
        output, _ = process.communicate(timeout=HANG_GUARD)
        assert process.returncode == 130, output
        hint = f"lfiw resume {out / FOLDER / 'sac-uniform'}"
        endings = ("lfiw: stopped.", f"lfiw: stopped; `{hint}` goes on.")  # before and in training
        assert output.splitlines()[-1] in endings, output
        assert "Traceback" not in output
        if len(moments) > 2:  # on an idle machine
            assert time.monotonic() - sent < 20
        problems, outcome = verify_run(out / FOLDER / "sac-uniform")
        assert problems == [] and "resumes from" in outcome


def wait_for_folder(process: subprocess.Popen[str], out: Path) -> None:
    guard = time.monotonic() + HANG_GUARD
    while not list(out.glob(f"{FOLDER}/*/checkpoints/0*")):
        assert process.poll() is None and time.monotonic() < guard, process.communicate()
        time.sleep(0.02)


@pytest.mark.parametrize("count", [1, pytest.param(10, marks=pytest.mark.faults)])
def test_second_signal_ends_at_once_and_loses_nothing(tmp_path: Path, count: int) -> None:
    """While the first is still being answered: an evaluation of ten thousand steps is waited
    for."""
    rng = random.Random(count)
    for index in range(count):
        out = tmp_path / str(index)
        slow = ("env.kwargs.length=100000", "eval_every_env_steps=100", "eval_episodes=50")
        settings = ("--set", *settings_for("uniform"), *slow)
        options = ("--replay", "uniform", "--env-steps", "1000000", "--out", str(out))
        process = command("train", ENV, *options, *settings)
        wait_for_folder(process, out)
        run = out / FOLDER / "sac-uniform"
        while not list(run.glob("policies/*")):  # written when an evaluation begins
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        time.sleep(rng.uniform(0.1, 0.6))
        assert process.poll() is None  # the evaluation takes far longer
        sent = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG_GUARD)
        assert process.returncode == 128 + signal.SIGTERM
        assert time.monotonic() - sent < (2 if count > 1 else HANG_GUARD)
        problems, outcome = verify_run(run)
        assert problems == [] and "resumes from" in outcome


def test_interrupt_before_anything_began_is_no_traceback(tmp_path: Path) -> None:
    """While the command's modules are still being imported."""
    raises = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    (tmp_path / "tyro.py").write_text(raises)
    # A test that runs in the background has inherited that Ctrl-C is ignored.
    heeded = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL)"
    command = "os.execv(sys.executable, [sys.executable, '-m', 'lfiw', 'settings'])"
    done = subprocess.run(
        [sys.executable, "-c", f"{heeded}; {command}"],
        env=os.environ
        | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        timeout=HANG_GUARD,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.parametrize("closed", ["1", "2"])
def test_closed_output_loses_only_what_was_printed(tmp_path: Path, closed: str) -> None:
    """As after `>&-` in a shell, where the next file to be opened would take its place."""
    script = f'exec {closed}>&-; exec "$0" -m lfiw "$@"'
    arguments = ["plot", str(STORE), "--methods", "sac-lfiw", "--out", str(tmp_path / "a.png")]
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, *arguments],
        capture_output=True,
        timeout=HANG_GUARD,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "a.png").is_file()
    assert (b"a.png" in done.stdout) == (closed == "2")


# F10: of several that want one folder, exactly one runs.


def test_of_two_processes_exactly_one_runs(tmp_path: Path) -> None:
    """Two that start it, then two that resume it."""
    out = tmp_path / "out"
    rivals = [start(out, "sac", "uniform", 10**6) for _ in range(2)]
    loser = refused(rivals)
    (winner,) = [process for process in rivals if process is not loser]
    later = command("resume", str(out))
    output, _ = later.communicate(timeout=HANG_GUARD)
    assert later.returncode == 2 and "is being written by another process" in output
    winner.kill()
    winner.communicate()
    rivals = [command("resume", str(out)) for _ in range(2)]
    loser = refused(rivals)
    for process in rivals:
        if process is not loser:
            process.kill()
            process.communicate()
    assert verify_run(out / FOLDER / "sac-uniform")[0] == []


def refused(rivals: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """The one that ends with a sentence while the other trains."""
    guard = time.monotonic() + HANG_GUARD
    while all(process.poll() is None for process in rivals):
        assert time.monotonic() < guard
        time.sleep(0.05)
    ended = [process for process in rivals if process.poll() is not None]
    assert len(ended) == 1
    output, _ = ended[0].communicate()
    assert ended[0].returncode == 2, output
    last = output.splitlines()[-1]
    assert "being written by another process" in last or "already holds a run" in last
    return ended[0]


def test_killed_before_anything_was_decided_training_can_be_repeated(tmp_path: Path) -> None:
    """The folder, its lock and a part of its config are what such a kill leaves."""
    folder = tmp_path / "out" / FOLDER / "sac-uniform"
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    (folder / "config.tmp").write_text('{"conf')
    explained = command("resume", str(folder))
    output, _ = explained.communicate(timeout=HANG_GUARD)
    assert explained.returncode == 2 and "nothing was trained yet" in output
    again = command("train", ENV, "--replay", "uniform", "--env-steps", "50", "--workers", "0",
                    "--out", str(tmp_path / "out"))  # fmt: skip
    output, _ = again.communicate(timeout=HANG_GUARD)
    assert again.returncode == 0, output
    assert not (folder / "config.tmp").exists()
