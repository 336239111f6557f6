"""Signals, kills and rivals: F1, F5, F10, with real processes."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import PATIENCE, finish, wait_for
from trainings import ENV, SETTINGS, command, contents, rows

from lfiw.agents import AGENTS
from lfiw.replay import REPLAYS
from lfiw.runs.verify import verify_run

STORE = Path(__file__).parents[2] / "results"
FOLDER = "environments-make_point"
METHODS = [(agent, replay) for agent in AGENTS for replay in REPLAYS]


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
    finish(whole)
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
        finish(process, code=-signal.SIGKILL)
        assert verify_run(run)[0] == []
        process = command("resume", str(run))
    finish(process)
    assert rows(run) == rows(expected)
    assert contents(run) == contents(expected)


# F5: from the first moment at which the folder is there.


def stop(process: subprocess.Popen[str], out: Path, number: int) -> None:
    """With a signal, after which the run can be resumed."""
    process.send_signal(number)
    output = finish(process, code=130)
    hint = f"lfiw resume {out / FOLDER / 'sac-uniform'}"
    endings = ("lfiw: stopped.", f"lfiw: stopped; `{hint}` goes on.")  # before and in training
    assert output.splitlines()[-1] in endings, output
    assert "Traceback" not in output
    problems, outcome = verify_run(out / FOLDER / "sac-uniform")
    assert problems == [] and "resumes from" in outcome


def wait_for_folder(process: subprocess.Popen[str], out: Path) -> None:
    wait_for(lambda: list(out.glob(f"{FOLDER}/*/checkpoints/0*")), process)


@pytest.mark.parametrize(("number", "learning"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_signal_commits_a_checkpoint(tmp_path: Path, number: int, learning: bool) -> None:
    """Before the first updates, which take their time to compile, and after them."""
    process = start(tmp_path, "sac", "uniform", 10**6)
    wait_for_folder(process, tmp_path)
    log = tmp_path / FOLDER / "sac-uniform" / "metrics.jsonl"
    if learning:
        wait_for(lambda: log.exists() and '"td_error"' in log.read_text(), process)
    stop(process, tmp_path, number)


@pytest.mark.faults
def test_signals_at_any_moment_commit_a_checkpoint(tmp_path: Path) -> None:
    moments = tuple(0.5 * n for n in range(24))
    rng = random.Random(len(moments))
    for index, moment in enumerate(moments):
        out = tmp_path / str(index)
        process = start(out, "sac", "uniform", 10**6)
        wait_for_folder(process, out)
        time.sleep(moment + rng.uniform(0, 0.5))
        sent = time.monotonic()
        stop(process, out, rng.choice([signal.SIGTERM, signal.SIGINT]))
        assert time.monotonic() - sent < 20  # on an idle machine


def start_endless_evaluation(out: Path) -> subprocess.Popen[str]:
    """A training that waits for its first evaluation when it is asked to stop, for ever."""
    endless = ("env.kwargs.length=1000000000", "eval_every_env_steps=100")
    settings = ("--set", *settings_for("uniform"), *endless)
    options = ("--replay", "uniform", "--env-steps", "1000000", "--out", str(out))
    process = command("train", ENV, *options, *settings)
    policy = out / FOLDER / "sac-uniform" / "policies" / "seed-0.safetensors"
    wait_for(policy.exists, process)  # written when it begins
    return process


def stop_at_once(process: subprocess.Popen[str], out: Path) -> None:
    """By a second signal, while the first is still being answered; nothing is lost."""
    wait_for(lambda: ended_by(process, signal.SIGTERM))
    finish(process, code=128 + signal.SIGTERM)
    problems, outcome = verify_run(out / FOLDER / "sac-uniform")
    assert problems == [] and "resumes from" in outcome


def ended_by(process: subprocess.Popen[str], number: int) -> bool:
    """Of two signals the second is lost where it comes before anybody has seen the first."""
    process.send_signal(number)
    return process.poll() is not None


def test_second_signal_ends_at_once_and_loses_nothing(tmp_path: Path) -> None:
    process = start_endless_evaluation(tmp_path)
    process.send_signal(signal.SIGTERM)
    stop_at_once(process, tmp_path)


@pytest.mark.faults
def test_ten_second_signals_end_within_two_seconds(tmp_path: Path) -> None:
    rng = random.Random(10)
    for index in range(10):
        out = tmp_path / str(index)
        process = start_endless_evaluation(out)
        process.send_signal(signal.SIGTERM)
        time.sleep(rng.uniform(0.1, 0.6))
        assert process.poll() is None
        sent = time.monotonic()
        stop_at_once(process, out)
        assert time.monotonic() - sent < 2  # on an idle machine


@pytest.mark.parametrize("module", ["tyro", "jax"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_anything_began_is_a_sentence(
    tmp_path: Path, module: str, number: signal.Signals
) -> None:
    """While modules are still being imported, which may turn any exception into another one."""
    (tmp_path / f"{module}.py").write_text(
        "import os\n"
        f"try:\n    os.kill(os.getpid(), {int(number)})\n"
        "except BaseException as error:\n    raise ImportError from error\n"
    )
    arguments = ["train", "Pendulum-v1", "--out", str(tmp_path / "runs")]
    # A test that runs in the background has inherited that Ctrl-C is ignored.
    heeded = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL)"
    command = f"os.execv(sys.executable, [sys.executable, '-m', 'lfiw', *{arguments!r}])"
    done = subprocess.run(
        [sys.executable, "-c", f"{heeded}; {command}"],
        env=os.environ
        | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"lfiw: stopped.\n")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("closed", ["1", "2"])
def test_closed_output_loses_only_what_was_printed(tmp_path: Path, closed: str) -> None:
    """As after `>&-` in a shell, where the next file to be opened would take its place."""
    script = f'exec {closed}>&-; exec "$0" -m lfiw "$@"'
    arguments = ["plot", str(STORE), "--methods", "sac-lfiw", "--out", str(tmp_path / "a.png")]
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, *arguments],
        capture_output=True,
        timeout=PATIENCE,
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
    assert "is being written by another process" in finish(later, code=2)
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
    wait_for(lambda: any(process.poll() is not None for process in rivals))
    ended = [process for process in rivals if process.poll() is not None]
    assert len(ended) == 1
    last = finish(ended[0], code=2).splitlines()[-1]
    assert "being written by another process" in last or "already holds a training" in last
    return ended[0]


def test_killed_before_anything_was_decided_training_can_be_repeated(tmp_path: Path) -> None:
    """The folder, its lock and a part of its config are what such a kill leaves."""
    folder = tmp_path / "out" / FOLDER / "sac-uniform"
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    (folder / "config.tmp").write_text('{"conf')
    explained = command("resume", str(folder))
    assert "nothing was trained yet" in finish(explained, code=2)
    again = command("train", ENV, "--replay", "uniform", "--env-steps", "50", "--workers", "0",
                    "--out", str(tmp_path / "out"))  # fmt: skip
    finish(again)
    assert not (folder / "config.tmp").exists()
