"""A run that turns sick is stopped and marked; its siblings do not notice."""

import dataclasses
import errno
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file
from small import compiled_programs_kept_in, small

import lfiw
from lfiw.acting.rollout import RESET_STREAM, stream
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError, RunError
from lfiw.learning.config import make_config
from lfiw.results.curves import read_curves
from lfiw.runs.checkpoint import load_checkpoint
from lfiw.runs.evaluate import evaluate
from lfiw.runs.read import read_metrics
from lfiw.runs.verify import verify_run
from lfiw.training.jobs import Job
from lfiw.training.phase import sickness
from lfiw.training.resume import resume_all
from lfiw.training.start import run_jobs

SEEDS = tuple(range(8))
SICK = 5
TIME_FIELDS = {"steps_per_second", "wall_seconds"}
FOLDER = Path("environments-make_poisoned") / "sac-lfiw"


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory: Any) -> Iterator[None]:
    with compiled_programs_kept_in(tmp_path_factory.mktemp("programs")):
        yield


def reset_seed(episode: int) -> int:
    """That of an episode of the run that will be sick."""
    return int(stream(SICK, RESET_STREAM).integers(2**31, size=episode + 1)[-1])


def train(out: Path, poison: int | None) -> Path:
    """Episodes take 30 steps: the eleventh begins after 300 of 600."""
    env = EnvConfig("environments:make_poisoned", {"poison": poison})
    settings = small("lfiw", seeds=SEEDS) | {"checkpoint.every_env_steps": 100}
    lfiw.train(env, "sac", "lfiw", out=out, workers=2, quiet=True, **settings)
    return out / FOLDER


def log_of(run: Path, seed: int) -> list[dict[str, Any]]:
    rows = [row for row in read_metrics(run) if row["seed"] == seed]
    return [{key: row[key] for key in row if key not in TIME_FIELDS} for row in rows]


def arrays_of(run: Path, seed: int) -> dict[str, bytes]:
    files = sorted(run.glob(f"**/seed-{seed}.safetensors"))
    return {
        str(file.relative_to(run)): file.read_bytes()
        for file in files
        if "stopped" not in file.parent.name
    }


@pytest.fixture(scope="module")
def control(tmp_path_factory: Any) -> Path:
    return train(tmp_path_factory.mktemp("control"), poison=None)


@pytest.fixture(scope="module")
def sick(tmp_path_factory: Any) -> Path:
    out = tmp_path_factory.mktemp("sick")
    with pytest.raises(RunError) as raised:
        train(out, poison=reset_seed(episode=10))
    assert str(raised.value).startswith(
        f"Stopped because their numbers were no longer finite: sac-lfiw seed {SICK} ("
    )
    assert str(raised.value).endswith("). All other runs are complete.")
    return out / FOLDER


def test_siblings_are_identical_to_a_control(control: Path, sick: Path) -> None:
    for seed in SEEDS:
        if seed == SICK:
            continue
        assert log_of(sick, seed) == log_of(control, seed)
        files = arrays_of(sick, seed)
        assert len(files) == 1 + 5 + 2  # policy, snapshots, checkpoints
        assert files == arrays_of(control, seed)


def test_sick_run_is_marked_and_stopped(control: Path, sick: Path) -> None:
    *before, last = log_of(sick, SICK)
    assert before == log_of(control, SICK)[: len(before)]
    assert last["kind"] == "stopped"
    assert last["reason"].endswith("not finite")
    assert 300 < last["env_steps"] <= 400
    assert all(row["env_steps"] < last["env_steps"] for row in before)
    assert not (sick / "snapshots" / "100" / f"seed-{SICK}.safetensors").exists()
    assert read_curves(sick).seeds == tuple(seed for seed in SEEDS if seed != SICK)


def test_last_good_checkpoint_of_the_sick_run_is_kept(sick: Path) -> None:
    stopped_at = log_of(sick, SICK)[-1]["env_steps"]
    kept = load_checkpoint(sick / "checkpoints" / f"stopped-seed-{SICK}")
    assert stopped_at - 100 <= kept.facts["env_steps"] < stopped_at
    arrays = kept.arrays[f"seed-{SICK}.safetensors"]
    floats = {key: array for key, array in arrays.items() if array.dtype == np.float32}
    assert len(floats) > 10
    assert all(np.isfinite(array).all() for array in floats.values())
    policy = load_file(sick / "policies" / f"seed-{SICK}.safetensors")
    assert all(np.isfinite(array).all() for array in policy.values())


def test_extended_run_leaves_the_sick_one_alone(control: Path, sick: Path) -> None:
    """Which also shows that its mark survives a restart."""
    before = log_of(sick, SICK)
    resume_all([control], env_steps=800, workers=0, quiet=True)
    with pytest.raises(RunError, match=f"sac-lfiw seed {SICK} "):
        resume_all([sick], env_steps=800, workers=0, quiet=True)
    assert log_of(sick, SICK) == before
    for seed in (0, 7):
        assert log_of(sick, seed) == log_of(control, seed)
        assert log_of(sick, seed)[-1]["env_steps"] == 800
        assert arrays_of(sick, seed) == arrays_of(control, seed)


def test_run_with_nobody_left_ends_early(tmp_path: Path) -> None:
    env = EnvConfig("environments:make_poisoned", {"poison": reset_seed(episode=0)})
    with pytest.raises(RunError, match="no longer finite: sac-lfiw seed 5 "):
        lfiw.train(
            env, "sac", "lfiw", out=tmp_path, workers=0, quiet=True, **small("lfiw", seeds=(SICK,))
        )
    steps = [row["env_steps"] for row in read_metrics(tmp_path / FOLDER)]
    assert 100 < max(steps) < 600
    with pytest.raises(InputError, match=r"All seeds of .* were stopped"):
        evaluate(tmp_path / FOLDER)


def test_run_stopped_before_its_first_policy_is_no_damage(tmp_path: Path) -> None:
    env = EnvConfig("environments:make_poisoned", {"poison": reset_seed(episode=0)})
    settings = small("lfiw", seeds=(0, SICK), eval_every_env_steps=600)
    with pytest.raises(RunError, match="no longer finite: sac-lfiw seed 5 "):
        lfiw.train(env, "sac", "lfiw", out=tmp_path, workers=0, quiet=True, **settings)
    run = tmp_path / FOLDER
    assert {path.stem for path in run.glob("policies/*")} == {"seed-0", "best-seed-0"}
    assert verify_run(run)[0] == []
    assert [row["seed"] for row in evaluate(run, episodes=1)] == [0]
    (run / "policies" / "seed-0.safetensors").unlink()
    (run / "policies" / "seed-9.safetensors").touch()
    assert any("seed-0.safetensors" in problem for problem in verify_run(run)[0])


@pytest.mark.parametrize(
    ("policy", "metrics", "expected"),
    [
        ([1.0], {"loss": 1.0, "by_age": [np.nan, 1.0]}, None),  # no transition of that age
        ([np.inf], {"loss": 1.0}, "weight of its policy is not finite"),
        ([1.0], {"loss": np.nan}, "its loss is not finite"),
    ],
)
def test_sickness(policy: list[float], metrics: dict[str, Any], expected: str | None) -> None:
    call = {name: np.array(value) for name, value in metrics.items()}
    assert sickness({"weight": np.array(policy)}, [{"loss": np.array(0.0)}, call]) == expected


class LostTerminal(io.StringIO):
    """Takes what is said at the start; the first line of progress fails."""

    def write(self, text: str) -> int:
        if "return" in text:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(text)


def test_training_that_nobody_can_follow_stops_with_a_checkpoint(tmp_path: Path) -> None:
    """It must not go on once the folder is no longer locked."""
    config = make_config("environments:make_point", "sac", "uniform", **small("uniform"))
    job = Job(dataclasses.replace(config, env_steps=10**6), tmp_path / "run")
    threads = threading.active_count()
    with pytest.raises(OSError, match="No space left"):
        run_jobs([job], 0, None, Console(file=LostTerminal()))
    assert threading.active_count() <= threads
    problems, outcome = verify_run(job.folder)
    assert problems == [] and "at environment step 0." not in outcome
    assert read_metrics(job.folder)[-1]["env_steps"] < job.config.env_steps
