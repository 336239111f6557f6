"""Changes to a finished training: each is found, and none of what a kill may leave is one."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lfiw
from lfiw.cli import main
from lfiw.errors import InputError
from lfiw.runs.checkpoint import list_checkpoints, manifest_bytes
from lfiw.runs.config_file import read_config, write_config
from lfiw.runs.files import json_bytes, json_hash, read_arrays, save_arrays
from lfiw.runs.seal import SEAL, is_sealed
from lfiw.runs.verify import verify_run
from lfiw.training.resume import resume

SETTINGS: dict[str, Any] = {
    **{"learning_starts": 50, "random_env_steps": 50, "batch_size": 16, "env_steps": 100},
    **{"agent.hidden_sizes": (8, 8), "phase_env_steps": 50, "updates_per_call": 10},
    **{"eval_episodes": 1, "checkpoint.every_env_steps": 50, "seeds": (0, 1)},
}


def train(out: Path, **settings: Any) -> Path:
    done = lfiw.train(
        "Pendulum-v1", "sac", "uniform", out=out, quiet=True, workers=0, **SETTINGS | settings
    )
    return done.folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("foreign"), seeds=(0,), batch_size=8)


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def swap(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def append_row(run: Path) -> None:
    row = {"kind": "eval", "seed": 0, "env_steps": 100, "return_mean": 0.0, "return_std": 0.0}
    with (run / "metrics.jsonl").open("a") as log:
        log.write(json.dumps(row) + "\n")


def change_weights(path: Path) -> None:
    """With the right hash in the file."""
    arrays = read_arrays(path)
    save_arrays(path, {name: array * 2 for name, array in arrays.items()})


def change_config(run: Path) -> None:
    """With the right hash in the file."""
    content = read_config(run)
    write_config(run, {**content, "command": ["lfiw", "train", "something", "else"]})


def change_manifest(run: Path) -> None:
    """With the right hash in the file."""
    path = list_checkpoints(run)[0] / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["facts"]["wall_seconds"] = 1.0
    manifest["sha256"] = json_hash(manifest)
    path.write_bytes(manifest_bytes(manifest))


def forget_file(run: Path) -> None:
    """A seal without one of its files, with the right hash."""
    content = json.loads((run / SEAL).read_text())
    content["files"].pop("policies/seed-1.safetensors")
    content["sha256"] = json_hash(content)
    (run / SEAL).write_bytes(json_bytes(content))


def policy(run: Path, seed: int = 0) -> Path:
    return run / "policies" / f"seed-{seed}.safetensors"


def snapshot(run: Path, percent: int = 60, seed: int = 0) -> Path:
    return run / "snapshots" / f"{percent:03d}" / f"seed-{seed}.safetensors"


def segment(run: Path, seed: int = 0) -> Path:
    return run / "ring" / f"seed-{seed}" / "rows-000000.f32"


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "rows appended": lambda run, _: append_row(run),
    "an empty line appended": lambda run, _: (run / "metrics.jsonl").open("a").write("\n"),
    "a row edited": lambda run, _: edit(run / "metrics.jsonl", '"eval"', '"evil"'),
    "the last row cut off": lambda run, _: os.truncate(
        run / "metrics.jsonl", (run / "metrics.jsonl").stat().st_size - 10
    ),
    "the log deleted": lambda run, _: (run / "metrics.jsonl").unlink(),
    "policies exchanged": lambda run, _: swap(policy(run), policy(run, 1)),
    "a policy of another training": lambda run, other: shutil.copy(policy(other), policy(run)),
    "a policy changed": lambda run, _: change_weights(policy(run)),
    "a policy deleted": lambda run, _: policy(run, 1).unlink(),
    "all policies deleted": lambda run, _: shutil.rmtree(run / "policies"),
    "a policy added": lambda run, _: shutil.copy(policy(run), policy(run, 7)),
    "a snapshot as the policy": lambda run, _: shutil.copy(snapshot(run), policy(run)),
    "a snapshot deleted": lambda run, _: snapshot(run).unlink(),
    "snapshots of two moments exchanged": lambda run, _: swap(snapshot(run, 60), snapshot(run, 20)),
    "snapshots of two seeds exchanged": lambda run, _: swap(snapshot(run), snapshot(run, seed=1)),
    "a snapshot of another training": lambda run, other: shutil.copy(
        snapshot(other), snapshot(run)
    ),
    "a snapshot added": lambda run, _: shutil.copytree(
        run / "snapshots" / "060", run / "snapshots" / "070"
    ),
    "a checkpoint renamed": lambda run, _: list_checkpoints(run)[0].rename(
        run / "checkpoints" / "000000000200-000000000050"
    ),
    "a checkpoint deleted": lambda run, _: shutil.rmtree(list_checkpoints(run)[0]),
    "the older checkpoint deleted": lambda run, _: shutil.rmtree(list_checkpoints(run)[1]),
    "a checkpoint of another training": lambda run, other: shutil.copytree(
        list_checkpoints(other)[0], run / "checkpoints" / "000000000100-000000000060"
    ),
    "facts of a checkpoint changed": lambda run, _: change_manifest(run),
    "the configuration edited": lambda run, _: edit(run / "config.json", "0.99", "0.98"),
    "the configuration changed with its hash": lambda run, _: change_config(run),
    "a segment cut": lambda run, _: os.truncate(segment(run), 100),
    "a byte of a segment flipped": lambda run, _: flip(segment(run), 77),
    "rows appended to a segment": lambda run, _: segment(run).open("ab").write(b"\0" * 400),
    "segments exchanged": lambda run, _: swap(segment(run), segment(run, 1)),
    "a segment added": lambda run, _: shutil.copy(
        segment(run), segment(run).with_name("rows-000001.f32")
    ),
    "the manifest edited": lambda run, _: edit(run / SEAL, '"size"', '"size" '),
    "the manifest forged": lambda run, _: forget_file(run),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_found(run: Path, foreign: Path, change: str) -> None:
    CHANGES[change](run, foreign)
    problems, _ = verify_run(run)
    assert problems
    assert all(str(run) in problem for problem in problems)


def test_a_finished_training_is_intact(run: Path, capfd: Any) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["verify", str(run)])
    assert exited.value.code == 0
    assert "all files are as your training left them" in capfd.readouterr().out


def test_what_a_kill_leaves_is_no_damage_and_is_removed(run: Path) -> None:
    (run / SEAL).unlink()  # killed after the last checkpoint
    left = ("config.tmp", "metrics.tmp", "sealed.tmp", "policies/seed-0.tmp")
    for name in (*left, "snapshots/060/seed-1.tmp"):
        (run / name).write_bytes(b"half")
    (run / "checkpoints" / ".writing-x").mkdir()
    problems, outcome = verify_run(run)
    assert problems == [] and "it has no sealed.json" in outcome
    resume(run, quiet=True, workers=0)
    assert is_sealed(run) and not list(run.glob("**/*.tmp"))
    problems, outcome = verify_run(run)
    assert problems == [] and "when a resume wrote sealed.json, after the training's end" in outcome


def test_a_resume_does_not_vouch_for_what_it_finds(run: Path) -> None:
    """A policy exchanged while there is no seal looks sound; a seal made later is not signed."""
    (run / SEAL).unlink()
    shutil.copy(policy(run, 0), policy(run, 1))
    resume(run, quiet=True, workers=0)
    assert "as your training left them" not in verify_run(run)[1]


def test_a_policy_that_a_kill_came_before_is_not_missing(run: Path) -> None:
    """The first evaluation writes one file after the other, and then the log."""
    (run / SEAL).unlink()
    shutil.rmtree(run / "checkpoints")
    (run / "metrics.jsonl").write_text("")
    policy(run, 1).unlink()
    assert verify_run(run)[0] == []


def test_a_changed_training_is_not_sealed_anew(run: Path) -> None:
    append_row(run)
    resume(run, quiet=True, workers=0)
    assert verify_run(run)[0] != []


def test_an_extended_training_is_sealed_anew(run: Path) -> None:
    before = (run / SEAL).read_bytes()
    resume(run, env_steps=150, quiet=True, workers=0)
    assert (run / SEAL).read_bytes() != before
    assert json.loads((run / SEAL).read_text())["env_steps"] == 150
    assert verify_run(run)[0] == []


@pytest.mark.parametrize(
    "change", ["a snapshot deleted", "snapshots of two seeds exchanged", "a snapshot added"]
)
def test_an_extension_does_not_seal_what_was_exchanged(
    run: Path, foreign: Path, change: str
) -> None:
    before = (run / SEAL).read_bytes()
    CHANGES[change](run, foreign)
    with pytest.raises(InputError, match=r"snapshots.*allow_inexact"):
        resume(run, env_steps=150, quiet=True, workers=0)
    assert (run / SEAL).read_bytes() == before and verify_run(run)[0] != []


def test_a_folder_in_the_place_of_a_seal_is_a_damage(run: Path) -> None:
    (run / SEAL).unlink()
    (run / SEAL).mkdir()
    assert f"{run / SEAL} is missing or not a plain file." in verify_run(run)[0]


def test_a_seal_of_somebody_else_is_told(run: Path, monkeypatch: Any, tmp_path: Path) -> None:
    """Whoever changes files can compute their hashes, but has no key of this user."""
    append_row(run)
    log = run / "metrics.jsonl"
    content = json.loads((run / SEAL).read_text())
    from lfiw.runs.seal import entry_of

    content["files"]["metrics.jsonl"] = entry_of(log)
    content["sha256"] = json_hash(content)
    (run / SEAL).write_bytes(json_bytes(content))
    problems, outcome = verify_run(run)
    assert problems == [] and "somebody else" in outcome


def test_a_broken_seal_is_never_left_by_an_extension(run: Path, monkeypatch: Any) -> None:
    """A kill after the first change: the folder is unfinished, not damaged."""
    from lfiw.training import start

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "train_side_by_side", killed)
    with pytest.raises(KeyboardInterrupt):
        resume(run, env_steps=150, quiet=True, workers=0)
    assert not is_sealed(run) and verify_run(run)[0] == []
