"""The single-file agents of examples/, as a user runs them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pendulum
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed; `make test-adapters` brings it.")

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = (
    *("--env-id", pendulum.NAME, "--batch-size", "64", "--hidden-size", "64", "--gamma", "0.95"),
    *("--q-lr", "3e-3", "--policy-lr", "3e-3", "--learning-starts", "300"),
    *("--buffer-size", "10000"),
)
LFIW = ("--lfiw.fast-size", "500", "--lfiw.hidden-sizes", "64", "64")


# The scripts one after the other in one process: importing torch takes longer than a short run.
IN_TURN = """
import json, runpy, sys
for sys.argv in json.loads(sys.argv[1]):
    runpy.run_path(sys.argv[0], run_name="__main__")
    print(flush=True)
"""


def run(folder: Path, *calls: tuple[Path, tuple[str, ...]]) -> list[str]:
    """What each call of a script with options prints."""
    arguments = [[str(script), *SMALL, *options] for script, options in calls]
    done = subprocess.run(
        [sys.executable, "-c", IN_TURN, json.dumps(arguments)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *outputs, rest = done.stdout.split("\n\n")
    assert (len(outputs), rest) == (len(calls), "")
    return outputs


@pytest.mark.parametrize(
    ("name", "steps", "more"),
    [
        ("sac", "6000", ()),
        pytest.param(*("td3", "8000", ("--exploration-noise", "0.3")), marks=pytest.mark.faults),
    ],
)
def test_solves_pendulum(name: str, steps: str, more: tuple[str, ...], tmp_path: Path) -> None:
    options = ("--total-timesteps", steps, "--lfiw.warmup-env-steps", "1000", *LFIW, *more)
    (output,) = run(tmp_path, (EXAMPLES / f"cleanrl_{name}_lfiw.py", options))
    assert float(output.split()[-1]) > pendulum.SOLVED
    assert list(tmp_path.rglob("events.out.tfevents.*"))


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_weights_that_stay_one_are_told(name: str, tmp_path: Path) -> None:
    """By default the warm-up is a tenth of the run, so that none ends before it unawares."""
    script = EXAMPLES / f"cleanrl_{name}_lfiw.py"
    steps = ("--total-timesteps", "310", *LFIW[2:])
    late, wide, sound = run(
        tmp_path,
        (script, (*steps, "--lfiw.fast-size", "100", "--lfiw.warmup-env-steps", "310")),
        (script, (*steps, "--lfiw.fast-size", "310")),
        (script, (*steps, "--lfiw.fast-size", "100")),
    )
    assert "Note: the run ends before --lfiw.warmup-env-steps; all weights stay 1." in late
    assert "Note: --lfiw.fast-size holds all steps" in wide
    assert "Note" not in sound


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_no_option_is_offered_that_is_refused(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"cleanrl_{name}_lfiw.py"), "--help"],
        env=os.environ | {"PYTHONPATH": str(EXAMPLES.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    offered = set(re.findall(r"--lfiw\.([a-z-]+)", done.stdout))
    assert offered == {
        *("temperature", "fast-size", "warmup-env-steps", "hidden-sizes"),
        "min-effective-sample-size",
    }


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_marked_lines_are_all_that_lfiw_adds(name: str, tmp_path: Path) -> None:
    """Without them the file is the plain agent: its run is that of equal weights to the bit."""
    source = EXAMPLES / f"cleanrl_{name}_lfiw.py"
    lines = source.read_text().splitlines(keepends=True)
    plain = tmp_path / "plain.py"
    plain.write_text("".join(line for line in lines if not line.rstrip().endswith("# LFIW")))
    assert "lfiw" not in plain.read_text().split('"""')[2].lower()
    steps = ("--total-timesteps", "800")
    warm = (*steps, "--lfiw.warmup-env-steps", "0", *LFIW, "--lfiw.temperature")
    without, equal, sharp = run(
        tmp_path, (plain, steps), (source, (*warm, "1e30")), (source, (*warm, "0.1"))
    )
    assert equal == without
    assert sharp != without


def test_her_by_a_strategy(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="`make test-adapters` brings it.")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "sb3_her_strategies.py"), "--total-timesteps", "220"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(r"success [01]\.\d\d", done.stdout.strip().splitlines()[-1])
