"""Kills in the middle of a checkpoint, damaged files, full and read-only disks: F2, F3, F4."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE, import_path
from trainings import ENV, SETTINGS

import lfiw
from lfiw.cli import main
from lfiw.errors import InputError
from lfiw.runs.checkpoint import list_checkpoints
from lfiw.runs.recovery import newest_good
from lfiw.runs.verify import verify_run
from lfiw.training.resume import resume_all

TESTS = Path(__file__).parents[1] / "support"
NAMESPACE = ("unshare", "--map-root-user", "--mount")  # a place to mount in, for users too


def run_script(*arguments: object, inside: tuple[str, ...] = ()) -> str:
    done = subprocess.run(
        [*inside, sys.executable, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": import_path(), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# F2: before and after every call that changes a file, and at random moments.


@pytest.mark.parametrize(
    ("stride", "least"), [(7, 20), pytest.param(1, 150, marks=pytest.mark.faults)]
)
def test_kill_around_every_change_of_a_file(tmp_path: Path, stride: int, least: int) -> None:
    assert int(run_script(TESTS / "mini_run.py", "calls", tmp_path, stride)) >= least


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.faults)])
def test_kill_at_random_moments_of_saving(tmp_path: Path, count: int) -> None:
    assert int(run_script(TESTS / "mini_run.py", "moments", tmp_path, count, 3)) == count


# F3: a flipped byte or a cut in any file that is not derived from others.


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds with every kind of state, two checkpoints, policies and snapshots."""
    settings = dict(assignment.split("=") for assignment in SETTINGS)
    out = tmp_path_factory.mktemp("trained")
    settings |= {"env_steps": "450", "eval_episodes": "1"}
    return lfiw.train(ENV, "sac", "lfiw", seeds=(0, 1), out=out, quiet=True, **settings).folder


def files_of(run: Path) -> list[Path]:
    derived = {"lock", "tensorboard"}
    files = [path.relative_to(run) for path in run.rglob("*") if path.is_file()]
    return sorted(path for path in files if path.parts[0] not in derived)


def damage(path: Path, rng: random.Random, decile: int, cut: bool) -> None:
    content = bytearray(path.read_bytes())
    position = len(content) * decile // 10 + rng.randrange(1 + len(content) // 10)
    position = min(position, len(content) - 1)
    if cut:
        path.write_bytes(content[:position])
    else:
        content[position] ^= rng.randrange(1, 256)
        path.write_bytes(content)


@pytest.mark.parametrize("trials", [60, pytest.param(1000, marks=pytest.mark.faults)])
def test_every_damage_is_seen_named_and_avoided(trained: Path, tmp_path: Path, trials: int) -> None:
    rng = random.Random(trials)
    files = files_of(trained)
    kinds = {path.parts[0] for path in files}
    assert kinds >= {"config.json", "metrics.jsonl", "checkpoints", "policies", "ring", "snapshots"}
    newest, before = [path.name for path in list_checkpoints(trained)]
    cases = [(file, decile, cut) for file in files for decile in range(10) for cut in (True, False)]
    rng.shuffle(cases)
    chosen = (cases * (1 + trials // len(cases)))[:trials]
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    assert verify_run(run)[0] == []
    for file, decile, cut in chosen:
        damage(run / file, rng, decile, cut)
        problems, outcome = verify_run(run)
        assert problems and all(str(run / file) in problem for problem in problems), (file, cut)
        if file.parts[0] in ("ring", "metrics.jsonl"):
            assert newest not in outcome  # the one before may need less of the file
        elif file.parts[0] != "config.json":
            expected = before if newest in file.parts else newest
            assert expected in outcome, (file, outcome)
            used, complaints = newest_good(run, 450)
            assert used is not None and used.path.name == expected
            assert all(str(run / file) in complaint for complaint in complaints)
        shutil.copy2(trained / file, run / file)
    assert verify_run(run)[0] == []


def test_rows_damaged_behind_the_older_checkpoint_lead_back_to_it(
    trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    _, before = list_checkpoints(run)
    path = run / "ring" / "seed-1" / "rows-000000.f32"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    used, complaints = newest_good(run, 450)
    assert used is not None and used.path == before and str(path) in complaints[0]
    content[0] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"no intact checkpoint.*rows-000000"):
        newest_good(run, 450)


def test_resume_after_damage_ends_the_same(trained: Path, tmp_path: Path) -> None:
    """The newest checkpoint is damaged and gone back from; what it had needed is cut off and
    collected again."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    newest = list_checkpoints(run)[0]
    (newest / "seed-0.safetensors").write_bytes(b"")
    resume_all([run], quiet=True)
    assert verify_run(run)[0] == []
    for file in files_of(trained):
        if file.parts[0] in ("policies", "ring", "snapshots"):
            assert (run / file).read_bytes() == (trained / file).read_bytes(), file


def test_a_damaged_log_is_no_end_of_the_training(trained: Path, tmp_path: Path) -> None:
    """The newest checkpoint and the first line and a later number of the log are damaged."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    (list_checkpoints(run)[0] / "seed-0.safetensors").write_bytes(b"")
    log = run / "metrics.jsonl"
    content = log.read_bytes()
    log.write_bytes(b"?" + content[1:].replace(b'"updates": 0', b'"updates": 9', 1))
    with pytest.raises(InputError, match=r"metrics.jsonl is damaged.*allow_inexact=True goes on"):
        resume_all([run], quiet=True)
    resume_all([run], quiet=True, allow_inexact=True)
    for file in files_of(trained):
        if file.parts[0] in ("policies", "ring", "snapshots"):
            assert (run / file).read_bytes() == (trained / file).read_bytes(), file
    assert len(log.read_bytes().splitlines()) == len(content.splitlines()) - 1
    used, _ = newest_good(run, 450)
    assert used is not None and used.facts["env_steps"] == 450


def test_verify_command(trained: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(trained, tmp_path / "run")

    def verify() -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as exited:
            main(["verify", str(tmp_path)])
        return exited.value.code, *capfd.readouterr()

    code, out, _ = verify()
    assert code == 0 and "resumes from 000000000450" in out
    path = tmp_path / "run" / "policies" / "seed-1.safetensors"
    path.unlink()
    code, out, err = verify()
    assert code == 1 and str(path) in out and err == "lfiw: 1 damaged file found.\n"


# F4: a full disk, and one that has become read-only.


def can_mount() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run(
            [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
        ).returncode
        == 0
    )


@pytest.mark.slow
@pytest.mark.skipif(
    not can_mount(),
    reason="No small file system can be mounted here: that takes unshare (of util-linux) and a "
    "kernel that lets users make namespaces (sysctl -w kernel.unprivileged_userns_clone=1).",
)
@pytest.mark.parametrize(
    "fault",
    ["full", pytest.param("read-only", marks=pytest.mark.faults)],
)
def test_disk_fails_while_training(tmp_path: Path, fault: str) -> None:
    """In a file system of its own: the script says what it expects."""
    run_script(TESTS / "small_disk.py", tmp_path, fault, inside=NAMESPACE)
