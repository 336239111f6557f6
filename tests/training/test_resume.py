"""A run that was killed and resumed ends with the bits of one that was not."""

import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import finish
from safetensors.numpy import load_file
from small import compiled_programs_kept_in
from trainings import (
    ENV,
    SETTINGS,
    command,
    contents,
    kill_in_training,
    rows,
    train_command,
)

import lfiw
from lfiw.errors import InputError, RunError
from lfiw.learning.config import make_config
from lfiw.learning.saved_state import saved_leaf
from lfiw.results.curves import read_curves
from lfiw.runs.checkpoint import list_checkpoints
from lfiw.runs.config_file import write_config
from lfiw.runs.evaluate import evaluate
from lfiw.settings import to_json
from lfiw.training.folder import Training, check_disk
from lfiw.training.resume import refuse_other_settings, resume_all


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with compiled_programs_kept_in(tmp_path_factory.mktemp("programs")):
        yield


@pytest.mark.parametrize("normalize", ["false", "true"])
def test_killed_the_run_ends_the_same(tmp_path: Path, normalize: str) -> None:
    chosen = (*SETTINGS, f"env.normalize_observations={normalize}")
    settings = dict(setting.split("=") for setting in chosen) | {"env_steps": "1000"}
    options = ("--out", str(tmp_path / "killed"), "--env-steps", "1000", "--set", *chosen)
    process = command("train", ENV, *options)
    folder = tmp_path / "killed" / "environments-make_point"
    kill_in_training(process, folder, signal.SIGKILL, random.Random(0))
    (resumed,) = resume_all([folder], quiet=True, workers=0)
    whole = lfiw.train(ENV, out=tmp_path / "whole", quiet=True, workers=0, **settings)
    assert rows(resumed.folder) == rows(whole.folder)
    assert contents(resumed.folder) == contents(whole.folder)


@pytest.mark.slow
def test_killed_again_and_again_two_methods_end_the_same(tmp_path: Path) -> None:
    finish(train_command(tmp_path / "whole"))
    folder = tmp_path / "killed" / "environments-make_point"
    rng = random.Random(0)
    process = train_command(tmp_path / "killed")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        kill_in_training(process, folder, number, rng)
        process = command("resume", str(folder))
    finish(process)
    expected = tmp_path / "whole" / "environments-make_point"
    methods = sorted(path.name for path in expected.iterdir())
    assert methods == ["sac-lfiw", "td3-lfiw"]
    for method in methods:
        assert rows(folder / method) == rows(expected / method), method
        assert contents(folder / method) == contents(expected / method), method


SMALL = {
    **{"learning_starts": 50, "random_env_steps": 50, "batch_size": 16, "env_steps": 200},
    **{"agent.hidden_sizes": (8, 8), "phase_env_steps": 50, "updates_per_call": 10},
    **{"eval_every_env_steps": 100, "eval_episodes": 1},
}


def train(out: Path, replay: str = "uniform", **settings: Any) -> Path:
    return lfiw.train(ENV, "sac", replay, out=out, quiet=True, workers=0, **SMALL | settings).folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("finished"))


def test_extended_run_goes_on(finished: Path) -> None:
    before, snapshots = rows(finished), snapshots_of(finished)
    resume_all([finished], env_steps=300, quiet=True, workers=0)
    after = rows(finished)
    assert after[: len(before)] == before
    assert after[-1]["env_steps"] == 300
    config = json.loads((finished / "config.json").read_text())["config"]
    assert (config["env_steps"], config["schedule_env_steps"]) == (300, 200)
    retaken = snapshots_of(finished)  # step 200 is at two thirds now
    assert snapshots.keys() == retaken.keys() == {20, 40, 60, 80, 100}
    assert [p for p in snapshots if retaken[p] != snapshots[p]] == [80, 100]


def snapshots_of(run: Path) -> dict[int, bytes]:
    files = sorted(run.glob("snapshots/*/seed-0.safetensors"))
    return {int(file.parent.name): file.read_bytes() for file in files}


def test_snapshots_that_an_extended_run_has_not_reached_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the old end would be taken for the new one."""

    def fail(*_: Any) -> None:
        raise RunError("pulled the plug")

    run = train(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("lfiw.training.member.Member.finish_phase", fail)
        with pytest.raises(RunError, match="pulled the plug"):
            resume_all([run], env_steps=400, quiet=True, workers=0)
    assert list(snapshots_of(run)) == [20, 40]  # step 200 is half of the way now
    resume_all([run], quiet=True, workers=0)
    assert list(snapshots_of(run)) == [20, 40, 60, 80, 100]


def test_extended_ring_goes_on_where_it_ended(finished: Path) -> None:
    """The first 200 rows filled their ring, so its head was back at slot 0; in the ring of the
    extended run it must stand behind them, or empty slots would be drawn."""
    resume_all([finished], env_steps=360, quiet=True, workers=0)
    newest = list_checkpoints(finished)[0] / "seed-0.safetensors"
    arrays = load_file(newest)
    assert arrays["learner.replay.size"] == 360
    assert arrays["learner.replay.head"] == 0  # 360 rows in 360 slots

    def restored(num_rows: int) -> list[int]:
        newest = np.zeros((min(num_rows, 360), 1), np.float32)
        names = ("replay.head", "replay.size")
        return [int(saved_leaf({}, newest, num_rows, 360, name)) for name in names]

    assert (restored(200), restored(500)) == ([200, 200], [140, 360])


def everything(run: Path) -> dict[str, bytes]:
    files = [path for path in run.rglob("*") if path.is_file()]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def test_finished_run_is_left_alone(finished: Path) -> None:
    before = everything(finished)
    (run,) = resume_all([finished], quiet=True, workers=0)
    assert run.folder == finished
    assert everything(finished) == before


def test_seeds_are_added(finished: Path, tmp_path: Path) -> None:
    """They are those of a run of their own, every command sees them, and the files of the seeds
    that were there stay as they are. Adding them again changes nothing."""
    run = train(tmp_path / "run")
    before = everything(run)
    resume_all([run], seeds=(0, 5, 3), quiet=True, workers=0)
    after = everything(run)
    assert {name: content for name, content in after.items() if "added/" not in name} == before
    alone = train(tmp_path / "alone", seeds=(3, 5))
    for seed in (3, 5):
        added, own = lfiw.load_policy(run, seed), lfiw.load_policy(alone, seed)
        assert added.arrays.keys() == own.arrays.keys()
        for name, array in added.arrays.items():
            np.testing.assert_array_equal(array, own.arrays[name])
    assert read_curves(run).seeds == (0, 3, 5)
    assert [row["seed"] for row in evaluate(run, episodes=1)] == [0, 5, 3]
    resume_all([tmp_path / "run"], seeds=(3, 5), quiet=True, workers=0)
    assert everything(run) == after


def test_prioritised_run_is_extended_beyond_its_ring(tmp_path: Path) -> None:
    """The priorities stay at their slots; the sums above them are those of the larger tree."""
    run = train(tmp_path, "per")
    name = "learner.replay.tree[1]"
    before = load_file(list_checkpoints(run)[0] / "seed-0.safetensors")[name]
    assert before.shape == (256,) and np.all(before[:200] > 0) and np.all(before[200:] == 0)
    resume_all([run], env_steps=400, quiet=True, workers=0)
    arrays = load_file(list_checkpoints(run)[0] / "seed-0.safetensors")
    assert arrays[name].shape == (512,) and np.all(arrays[name][:400] > 0)
    sums = arrays[name].reshape(-1, 128).sum(axis=1)
    np.testing.assert_allclose(arrays["learner.replay.tree[0]"][:4], sums, rtol=1e-5)
    assert rows(run)[-1]["env_steps"] == 400


def test_sum_tree_grows_also_by_a_level() -> None:
    leaves = np.where(np.arange(16_384) < 16_300, 1.0, 0.0).astype(np.float32)
    saved = {"replay.tree[0]": leaves.reshape(-1, 128).sum(axis=1), "replay.tree[1]": leaves}
    newest = np.zeros((16_300, 1), np.float32)
    grown = [
        saved_leaf(saved, newest, 16_300, 20_000, f"replay.tree[{level}]") for level in range(3)
    ]
    assert [level.shape for level in grown] == [(128,), (256,), (20_096,)]
    assert [float(level.sum()) for level in grown] == [16_300] * 3
    np.testing.assert_array_equal(grown[0][:2], [16_300, 0])


@pytest.mark.parametrize(
    ("part", "name", "value", "words"),
    [
        ("versions", "numpy", "1.0", r"versions.numpy 1\.0 then"),
        ("hardware", "cpu", "another", "hardware.cpu another then"),
        ("config", "batch_size", 17, "config.batch_size 16 then, 17 now"),
        ("config", "seeds", [0, 1], r"config.seeds \[0\] then, \[0, 1\] now"),
    ],
)
def test_other_conditions_are_refused_with_the_list(
    finished: Path, part: str, name: str, value: Any, words: str
) -> None:
    path = finished / "config.json"
    original = path.read_text()
    content = json.loads(original)
    content[part][name] = value
    write_config(finished, content)
    with pytest.raises(InputError, match=words):
        resume_all([finished], quiet=True, workers=0)
    if part != "config":
        resume_all([finished], allow_inexact=True, quiet=True, workers=0)
    path.write_text(original)


def test_damaged_configuration_is_refused(finished: Path) -> None:
    path = finished / "config.json"
    original = path.read_text()
    path.write_text(original.replace('"command": [', '"command": ["x", '))
    with pytest.raises(InputError, match=r"config\.json is damaged"):
        resume_all([finished], quiet=True, workers=0)
    path.write_text(original)


def test_a_shorter_run_cannot_be_asked_for(finished: Path) -> None:
    with pytest.raises(InputError, match="less than"):
        resume_all([finished], env_steps=10, quiet=True, workers=0)


def test_disk_that_cannot_hold_the_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot fit"):
        check_disk(10**18, [tmp_path / "not" / "there" / "yet"])
    check_disk(1, [tmp_path])


def test_a_folder_with_another_wrapped_strategy_is_another_training(tmp_path: Path) -> None:
    """Uniform replay has no settings of its own by which it could be told from PER."""
    over_per = make_config("Pendulum-v1", "sac", "lfiw", **{"replay.over": "per"})
    write_config(tmp_path, {"config": to_json(over_per)})
    refuse_other_settings(Training(tmp_path, over_per))
    with pytest.raises(InputError, match=r"replay.over per there, uniform here"):
        refuse_other_settings(Training(tmp_path, make_config("Pendulum-v1", "sac", "lfiw")))


def test_a_folder_of_an_older_version_is_the_same_training(tmp_path: Path) -> None:
    """It keeps its fixed starts, which are no longer the default."""
    config = make_config("Pendulum-v1", "sac", "lfiw")
    stored = to_json(config)
    del stored["eval_starts"]
    write_config(tmp_path, {"config": stored})
    refuse_other_settings(Training(tmp_path, config))
