"""The single-file agents of examples/, as a user runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pendulum
import pytest

pytest.importorskip("torch", reason="needs pip install 'lfiw[torch]'")

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = (
    *("--env-id", pendulum.NAME, "--batch-size", "64", "--hidden-size", "64", "--gamma", "0.95"),
    *("--q-lr", "3e-3", "--policy-lr", "3e-3", "--learning-starts", "300"),
    *("--buffer-size", "10000"),
)
LFIW = ("--lfiw.fast-size", "500", "--lfiw.hidden-sizes", "64", "64")


def run(script: Path, folder: Path, *options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(script), *SMALL, *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "steps", "more"),
    [("sac", "6000", ()), ("td3", "8000", ("--exploration-noise", "0.3"))],
)
def test_solves_pendulum(name: str, steps: str, more: tuple[str, ...], tmp_path: Path) -> None:
    options = ("--total-timesteps", steps, "--lfiw.warmup-env-steps", "1000", *LFIW, *more)
    *_, last = run(EXAMPLES / f"cleanrl_{name}_lfiw.py", tmp_path, *options)
    assert float(last.split()[-1]) > pendulum.SOLVED
    assert list(tmp_path.rglob("events.out.tfevents.*"))


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_marked_lines_are_all_that_lfiw_adds(name: str, tmp_path: Path) -> None:
    """Without them the file is the plain agent: its run is that of equal weights to the bit."""
    source = EXAMPLES / f"cleanrl_{name}_lfiw.py"
    lines = source.read_text().splitlines(keepends=True)
    plain = tmp_path / "plain.py"
    plain.write_text("".join(line for line in lines if not line.rstrip().endswith("# LFIW")))
    assert "lfiw" not in plain.read_text().split('"""')[2].lower()
    steps = ("--total-timesteps", "800")
    without = run(plain, tmp_path, *steps)
    warm = ("--lfiw.warmup-env-steps", "0", *LFIW)
    assert run(source, tmp_path, *steps, *warm, "--lfiw.temperature", "1e30") == without
    assert run(source, tmp_path, *steps, *warm, "--lfiw.temperature", "0.1") != without
