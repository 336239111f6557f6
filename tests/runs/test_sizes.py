"""Files that never end, are waited for or claim to be huge: a sentence, before memory is taken."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import PATIENCE, import_path

import lfiw
from lfiw.cluster.task import LogReader
from lfiw.errors import Damaged, InputError
from lfiw.plain_files import hash_of_start, read_lines, read_plain
from lfiw.results.store import add_runs
from lfiw.runs.checkpoint import list_checkpoints, manifest_bytes
from lfiw.runs.files import json_hash
from lfiw.runs.layout import snapshot_file
from lfiw.runs.read import read_metrics
from lfiw.runs.segments import segment_path
from lfiw.runs.snapshots import load_snapshot
from lfiw.runs.verify import verify_run
from lfiw.training.progress import Progress
from lfiw.training.resume import resume

SETTINGS: dict[str, Any] = {
    **{"learning_starts": 50, "random_env_steps": 50, "batch_size": 16, "env_steps": 100},
    **{"agent.hidden_sizes": (8, 8), "phase_env_steps": 50, "updates_per_call": 10},
    "eval_episodes": 1,
}
MANY_DIGITS = "9" * 30
MEMORY_KB = 500_000


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("honest")
    return lfiw.train("Pendulum-v1", "sac", "uniform", out=out, quiet=True, **SETTINGS).folder


@pytest.fixture
def run(honest: Path, tmp_path: Path) -> Path:
    shutil.copytree(honest, tmp_path / "sac-uniform")
    return tmp_path / "sac-uniform"


def sparse(path: Path, size: int = 2**32) -> None:
    path.unlink(missing_ok=True)
    path.touch()
    os.truncate(path, size)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def long_number(path: Path) -> None:
    """In a configuration, with the right hash."""
    content = json.loads(path.read_text())
    content["config"]["env_steps"] = int(MANY_DIGITS)
    content["sha256"] = json_hash(content)
    path.write_text(json.dumps(content, indent=2) + "\n")


def long_row(path: Path) -> None:
    row = f'{{"kind": "eval", "seed": 0, "env_steps": {MANY_DIGITS}, "return_mean": 1.0}}\n'
    path.write_text(row + path.read_text())


def long_cell(path: Path) -> None:
    path.write_text(path.read_text().replace(",100,", f",{MANY_DIGITS},"))


def long_header(path: Path) -> None:
    text = f'{{"x":{{"dtype":"F32","shape":[{MANY_DIGITS}],"data_offsets":[0,{MANY_DIGITS}]}}}}'
    path.write_bytes(len(text).to_bytes(8, "little") + text.encode())


def claim(path: Path, size: int = 2**40) -> None:
    """A segment of that size, as the newest checkpoint says."""
    newest, before = list_checkpoints(path.parents[2])
    shutil.rmtree(before)
    manifest = json.loads((newest / "manifest.json").read_text())
    rows = manifest["facts"]["segments"]["0"]
    rows["row_bytes"] = size // rows["num_rows"]
    manifest["sha256"] = json_hash(manifest)
    (newest / "manifest.json").write_bytes(manifest_bytes(manifest))
    sparse(path, size)


def claimed_log(path: Path) -> None:
    """A log of that size, as the newest checkpoint says."""
    newest, before = list_checkpoints(path.parent)
    shutil.rmtree(before)
    manifest = json.loads((newest / "manifest.json").read_text())
    manifest["facts"]["log_bytes"] = 2**32
    manifest["sha256"] = json_hash(manifest)
    (newest / "manifest.json").write_bytes(manifest_bytes(manifest))
    sparse(path)


ATTACKS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "sparse log": ("metrics.jsonl", sparse),
    "sparse log of 2^40": ("metrics.jsonl", lambda path: sparse(path, 2**40)),
    "sparse log as claimed": ("metrics.jsonl", claimed_log),
    "log from a pipe": ("metrics.jsonl", fifo),
    "log from a device": ("metrics.jsonl", device),
    "log with a long number": ("metrics.jsonl", long_row),
    "sparse config": ("config.json", sparse),
    "config from a pipe": ("config.json", fifo),
    "config from a device": ("config.json", device),
    "config with a long number": ("config.json", long_number),
    "sparse policy": ("policies/seed-0.safetensors", lambda path: sparse(path, 2**29)),
    "policy from a pipe": ("policies/seed-0.safetensors", fifo),
    "policy with a long number": ("policies/seed-0.safetensors", long_header),
    "snapshot from a device": ("snapshots/100/seed-0.safetensors", device),
    "segment of 2^40": ("ring/seed-0/rows-000000.f32", claim),
    "segment from a pipe": ("ring/seed-0/rows-000000.f32", fifo),
}
STORE_ATTACKS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "sparse table": ("curves.csv", sparse),
    "sparse table that is not too large": ("curves.csv", lambda path: sparse(path, 2**28)),
    "table from a pipe": ("curves.csv", fifo),
    "table from a device": ("curves.csv", device),
    "long number": (
        "curves.csv",
        lambda path: (
            path.write_text(path.read_text().replace(",100,", f",{MANY_DIGITS},")) and None
        ),
    ),
    "record from a pipe": ("sac-uniform.json", fifo),
    "record with a long number": ("sac-uniform.json", long_number),
}

# All commands, one after the other in one process: exit codes, messages, and the most memory.
USE = """
import json, sys
from lfiw.cli import main
codes = []
for command in json.loads(sys.argv[1]):
    try:
        main(command)
    except SystemExit as exited:
        codes.append(exited.code)
status = open("/proc/self/status").read()
print(json.dumps([codes, int(status.split("VmHWM:")[1].split()[0])]))
"""


def use(commands: list[list[str]], folder: Path) -> tuple[list[int], list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", USE, json.dumps(commands)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": import_path()},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    codes, kilobytes = json.loads(done.stdout.splitlines()[-1])
    assert kilobytes < MEMORY_KB, f"{kilobytes} kB"
    assert "Traceback" not in done.stderr
    return codes, done.stderr.splitlines()


@pytest.mark.parametrize("command", ["verify", "plot", "results add", "evaluate"])
def test_hostile_files_of_runs(honest: Path, tmp_path: Path, command: str) -> None:
    for attack, (name, change) in ATTACKS.items():
        shutil.copytree(honest, tmp_path / attack)
        change(tmp_path / attack / name)
    codes, messages = use([[*command.split(), attack] for attack in ATTACKS], tmp_path)
    by_attack = dict(zip(ATTACKS, codes, strict=True))
    assert all(code in (0, 1, 2) for code in codes), by_attack
    assert len(messages) == sum(code != 0 for code in codes), messages
    if command == "verify":
        assert 0 not in codes, by_attack


@pytest.mark.parametrize("attack", ["sparse log as claimed", "segment of 2^40", "sparse config"])
def test_hostile_file_of_a_run_that_goes_on(run: Path, attack: str) -> None:
    name, change = ATTACKS[attack]
    change(run / name)
    with pytest.raises(InputError) as refused:
        resume(run, env_steps=150, workers=0, quiet=True)
    assert Path(name).name in str(refused.value)


def test_what_is_left_of_a_sparse_log_goes_on(run: Path) -> None:
    log = run / "metrics.jsonl"
    rows = read_metrics(run)
    os.truncate(log, 2**32)
    resume(run, env_steps=150, workers=0, quiet=True, allow_inexact=True)
    assert read_metrics(run)[: len(rows)] == rows and log.stat().st_size < 10_000


def test_hostile_files_of_stores(run: Path, tmp_path: Path) -> None:
    commands = []
    for attack, (name, change) in STORE_ATTACKS.items():
        add_runs([run], tmp_path / attack)
        change(tmp_path / attack / "Pendulum-v1" / name)
        commands += [["results", "show", "--results", attack], ["plot", attack]]
        commands += [["results", "add", str(run), "--results", attack]]
    codes, messages = use(commands, tmp_path)
    assert codes == [2] * len(commands), messages
    assert len(messages) == len(commands)


def test_a_page_from_a_pipe(run: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "README.md")
    (codes, (message,)) = use([["results", "add", str(run), "--results", "."]], tmp_path)
    assert codes == [2] and "README.md" in message


def test_a_log_from_a_pipe_is_not_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics.jsonl")
    LogReader(tmp_path / "metrics.jsonl", Progress("run", 10, 1)).read()


def test_a_snapshot_from_a_pipe(run: Path) -> None:
    fifo(snapshot_file(run, 100, 0))
    with pytest.raises(InputError, match="no snapshot"):
        load_snapshot(run, 100, 0)


def test_plain_files_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc\nd\n")
    assert read_plain(path, 6) == b"abc\nd\n"
    with pytest.raises(Damaged, match="6 bytes, more than the 5"):
        read_plain(path, 5)
    assert list(read_lines(path, 6, 4)) == [b"abc\n", b"d\n"]
    with pytest.raises(Damaged, match="a line of more than 3 bytes"):
        list(read_lines(path, 6, 3))
    # printf abc | sha256sum
    assert hash_of_start(path, 3).startswith("ba7816bf")
    with pytest.raises(Damaged, match="too short"):
        hash_of_start(path, 7)


def test_a_long_log_is_read(run: Path) -> None:
    """25,000 phases of a seed, as of 5 million steps in phases of 200, in rows as they are."""
    log = run / "metrics.jsonl"
    row = next(line for line in log.read_text().splitlines() if '"train"' in line)
    log.write_text(f"{row}\n" * 25_000 + log.read_text())
    assert len(read_metrics(run)) > 25_000


def test_an_honest_run_passes(run: Path, tmp_path: Path) -> None:
    assert verify_run(run)[0] == []
    assert segment_path(run / "ring" / "seed-0", 0).is_file()
    assert (
        use([["verify", str(run)], ["plot", str(run)], ["evaluate", str(run)]], tmp_path)[0]
        == [0] * 3
    )
