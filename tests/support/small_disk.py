"""Train on a disk that fills up or becomes read-only, then on the mended disk. To be run as
`unshare --map-root-user --mount python small_disk.py FOLDER full|read-only`."""

import subprocess
import sys
from pathlib import Path

from processes import finish, wait_for
from trainings import ENV, SETTINGS, command

from lfiw.runs.checkpoint import list_checkpoints
from lfiw.runs.verify import verify_run


def mount(*options: str) -> None:
    subprocess.run(["mount", *options], check=True)


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


def two_checkpoints_after_the_start(run: Path) -> bool:
    found = list_checkpoints(run)
    return len(found) >= 2 and not found[1].name.startswith("0" * 12)


def main(folder: Path, fault: str) -> None:
    disk = folder / "disk"
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=40m", "tmpfs", str(disk))
    run = disk / "environments-make_point" / "sac-uniform"
    settings = [setting for setting in SETTINGS if not setting.startswith("replay.")]
    options = ("--replay", "uniform", "--env-steps", "100000", "--out", str(disk))
    training = command("train", ENV, *options, "--set", *settings)
    wait_for(lambda: two_checkpoints_after_the_start(run), training)
    if fault == "full":
        fill(disk)
    else:
        # Files that are open for writing would keep a file system from becoming read-only.
        mount("--bind", str(disk), str(disk))
        mount("-o", "remount,bind,ro", str(disk))
    output = finish(training, code=1)
    last = output.splitlines()[-1]
    assert "Traceback" not in output and last.startswith("lfiw: sac-uniform stopped: "), output
    assert "intact" in last, output
    if fault == "full":
        (disk / "filler").unlink()
    else:
        mount("-o", "remount,bind,rw", str(disk))
    left = [path for path in run.rglob("*") if path.suffix == ".tmp" or path.name[0] == "."]
    assert left == [], left
    problems, outcome = verify_run(run)
    assert problems == [] and "resumes from" in outcome, (problems, outcome)
    steps = int(outcome.split()[-1].rstrip("."))
    resumed = command("resume", str(run))
    wait_for(lambda: list_checkpoints(run)[0].name > f"{steps + 400:012d}", resumed)
    resumed.terminate()
    finish(resumed, code=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
