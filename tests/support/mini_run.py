"""A method folder at the speed of the disk: what a trainer writes, without training.

`python mini_run.py calls FOLDER STRIDE` kills itself before and after every call (or every
STRIDE-th) that changes a file while a checkpoint is restored, continued and saved; `python
mini_run.py moments FOLDER COUNT SEED` is killed at random moments. After each kill the run must
go on from the newest committed checkpoint, and end with the files of one that was never killed.
"""

import itertools
import os
import random
import shutil
import signal
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from lfiw.runs.checkpoint import checkpoint_name, list_checkpoints, remove_newer, save_checkpoint
from lfiw.runs.config_file import read_config, write_config
from lfiw.runs.files import save_arrays
from lfiw.runs.log import RunLog
from lfiw.runs.recovery import damages, newest_good, start_facts
from lfiw.runs.segments import Segments

ROWS = 20_000  # in a step; a segment has 50,000, and the ring holds three steps
CAPACITY = 60_000
CHANGES = {"write", "flush", "fsync", "open", "close", "truncate", "mkdir", "rmdir"} | {
    *("rename", "replace", "unlink", "remove", "touch"),
}


def start(run: Path) -> None:
    run.mkdir(parents=True)
    content = {"config": {"env": {"id": "none"}, "seeds": [0]}}
    write_config(run, content)
    save_checkpoint(run, checkpoint_name(0, 0), start_facts(content), {})


def advance(run: Path, until: int) -> None:
    """Go on to step `until`; every second step is saved."""
    checkpoint, _ = newest_good(run, CAPACITY)
    assert checkpoint is not None
    remove_newer(checkpoint.path)
    facts = checkpoint.facts
    done = facts["env_steps"] // ROWS
    log, rows = RunLog(run, resume_at=facts["log_bytes"]), Segments(run / "ring" / "seed-0", 1)
    with closing(log), closing(rows):
        if done:
            expected = np.arange(done * ROWS, dtype=np.float32)[-CAPACITY:, None]
            np.testing.assert_array_equal(rows.restore(facts["segments"]["0"], CAPACITY), expected)
        for step in range(done, until):
            rows.append(np.arange(step * ROWS, (step + 1) * ROWS, dtype=np.float32)[:, None])
            log.append({"kind": "eval", "seed": 0, "env_steps": step, "return_mean": step * 1.5})
            if step % 2:
                facts = save(run, step + 1, log, rows, facts)


def save(run: Path, step: int, log: RunLog, rows: Segments, before: dict[str, Any]) -> Any:
    arrays = {"x": np.full(1000, step, np.float32)}
    save_arrays(run / "policies" / "seed-0.safetensors", arrays)
    facts = start_facts(read_config(run)) | {
        **log.facts(),
        "env_steps": step * ROWS,
        "runners": {"0": {"env_steps": step, "episode_seed": 0, "total_reward": 0.0}},
        "segments": {"0": rows.facts()},
    }
    save_checkpoint(run, checkpoint_name(step, 0), facts, {"seed-0.safetensors": arrays})
    if before["segments"]:
        rows.drop_before(before["segments"]["0"], CAPACITY)
    return facts


def contents(run: Path) -> dict[str, bytes]:
    """All that a user has: temporary files and the derived ones of TensorBoard aside."""
    ignored = {"tensorboard", "lock"}
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.relative_to(run).parts[0] not in ignored
    }


def in_child(work: Any) -> bool:
    """Whether a forked process ended by itself."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return not os.WIFSIGNALED(status)


def kill_at(count: int) -> Any:
    """A profiler that kills this process at the given call or return of a change to a file."""
    seen = 0

    def profiler(frame: Any, event: str, function: Any) -> None:
        nonlocal seen
        if event in ("c_call", "c_return") and function.__name__ in CHANGES:
            seen += 1
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)

    return profiler


def assert_intact(run: Path) -> None:
    """Every checkpoint that can be seen is whole, so the newest is taken up."""
    found = list_checkpoints(run)
    assert found and [list(damages(run, path, CAPACITY)) for path in found] == [[]] * len(found)


def check_survivor(run: Path, whole: dict[str, bytes], until: int) -> None:
    assert_intact(run)
    advance(run, until)
    survived = contents(run)
    assert survived.keys() == whole.keys(), sorted(survived.keys() ^ whole.keys())
    assert survived == whole


def kill_at_calls(folder: Path, stride: int) -> int:
    """One after the other; from a run with two checkpoints and rows after the second."""
    begun = folder / "begun"
    start(begun)
    advance(begun, 5)
    shutil.copytree(begun, folder / "whole")
    advance(folder / "whole", 8)
    whole = contents(folder / "whole")
    for kills in itertools.count():
        count = 1 + stride * kills
        run = folder / "killed"
        shutil.copytree(begun, run)

        def work(run: Path = run, count: int = count) -> None:
            sys.setprofile(kill_at(count))
            advance(run, 6)
            sys.setprofile(None)

        if in_child(work):
            return kills
        check_survivor(run, whole, 8)
        shutil.rmtree(run)
    raise AssertionError


def kill_at_moments(folder: Path, count: int, seed: int) -> int:
    """At random moments of one run, from its start."""
    rng = random.Random(seed)
    last = 2 * count
    start(folder / "whole")
    begun = time.monotonic()
    advance(folder / "whole", last)
    longest = (time.monotonic() - begun) / count * 3
    whole = contents(folder / "whole")
    run = folder / "killed"
    start(run)
    kills = 0
    while kills < count:
        child = os.fork()
        if child == 0:
            advance(run, last)
            os._exit(0)
        time.sleep(rng.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += 1
        assert_intact(run)
        if not os.WIFSIGNALED(status):  # it was quicker: start anew
            shutil.rmtree(run)
            start(run)
    check_survivor(run, whole, last)
    return kills


if __name__ == "__main__":
    mode, where, *numbers = sys.argv[1:]
    if mode == "calls":
        print(kill_at_calls(Path(where), *map(int, numbers)))
    else:
        print(kill_at_moments(Path(where), *map(int, numbers)))
