"""What Python offers beside `train`: the same functions that the commands call."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small import compiled_programs_kept_in, small

import lfiw
from lfiw.cli import main
from lfiw.runs.read import read_metrics

ENV = "environments:make_point"


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with compiled_programs_kept_in(tmp_path_factory.mktemp("programs")):
        yield


def train(out: Path, **changes: Any) -> lfiw.Training:
    settings = small("uniform", env_steps=200, eval_every_env_steps=100) | changes
    return lfiw.train(ENV, "sac", "uniform", out=out, workers=0, quiet=True, **settings)


@pytest.fixture
def training(tmp_path: Path) -> lfiw.Training:
    return train(tmp_path)


def test_a_training_goes_on_and_is_evaluated(training: lfiw.Training) -> None:
    """Each takes what the one before returned."""
    longer = lfiw.resume(training, env_steps=300, seeds=(4,), workers=0, quiet=True)
    assert (longer.folder, longer.config.env_steps) == (training.folder, 300)
    assert {row["seed"]: row["env_steps"] for row in longer.evaluations()} == {0: 300, 4: 300}
    rows = lfiw.evaluate(longer, episodes=2)
    assert [(row["seed"], row["episodes"]) for row in rows] == [(0, 2), (4, 2)]
    assert lfiw.evaluate(str(longer.folder), episodes=2, seed=4) == rows[1:]


def test_a_finished_training_is_left_as_it_is(training: lfiw.Training) -> None:
    before = read_metrics(training)
    assert lfiw.resume(str(training.folder), workers=0, quiet=True).folder == training.folder
    assert read_metrics(training) == before


def test_record(training: lfiw.Training, tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg", reason="needs lfiw[video]")
    recording = lfiw.record(training, tmp_path / "a.gif", episode_seed=7)
    assert recording.path == tmp_path / "a.gif" and recording.path.stat().st_size > 0
    shown = recording._repr_html_()  # in a notebook
    (content,) = re.findall(r'<img .*src="data:image/gif;base64,(.+)">', shown)
    assert base64.b64decode(content) == recording.path.read_bytes()
    (row,) = lfiw.evaluate(training, episodes=1, episode_seed=7)
    assert recording.length == row["length_mean"]
    assert recording.total_reward == pytest.approx(row["return_mean"], rel=1e-5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda t: lfiw.resume(t.folder.parent), "holds 2 method folders: name one of them"),
        (lambda t: lfiw.resume([t]), "A method folder is a path, or what lfiw.train returned"),
        (lambda t: lfiw.resume_all(t.folder), "takes a list of folders, not .*sac-uniform"),
        (lambda t: lfiw.resume(t.folder / "none"), "none does not exist"),
        (lambda t: lfiw.resume(t, env_steps=100), "env_steps=100 is less than the run's 200"),
        (lambda t: lfiw.resume(t, env_steps="many"), "env_steps takes a value of type int"),
        (lambda t: lfiw.resume(t, seeds=3), "seeds takes a value of type tuple, not 3"),
        (lambda t: lfiw.evaluate(3), "A method folder is a path, .*: 3"),
        (lambda t: lfiw.evaluate(t, episodes=0), "episodes must be at least 1, not 0"),
        (lambda t: lfiw.evaluate(t, episodes=1.5), "episodes takes a value of type int, not 1.5"),
        (lambda t: lfiw.evaluate(t, seed=9), "^/.*/sac-uniform holds no policy of seed 9"),
        (lambda t: lfiw.record(t, "a.avi"), r"must end in \.mp4 or \.gif"),
        (lambda t: lfiw.record(t, seed="first"), "seed takes a value of type int, not 'first'"),
    ],
)
def test_wrong_arguments_get_a_sentence(two: lfiw.Training, call: Any, sentence: str) -> None:
    with pytest.raises(lfiw.InputError, match=sentence):
        call(two)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> lfiw.Training:
    """One of two method folders side by side."""
    out = tmp_path_factory.mktemp("two")
    configs = [
        lfiw.make_config(ENV, agent, "uniform", **small("uniform", env_steps=200))
        for agent in ("sac", "td3")
    ]
    return lfiw.train_all(configs, out=out, workers=0, quiet=True)[0]


def test_commands_and_functions_are_the_same(
    training: lfiw.Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    def note(name: str, result: Any) -> Any:
        def function(*arguments: Any, **options: Any) -> Any:
            called.append(name)
            return result

        return function

    monkeypatch.setattr("lfiw.runs.evaluate.evaluate", note("evaluate", []))
    recording = lfiw.Recording(Path("a.gif"), 0.0, 1)
    monkeypatch.setattr("lfiw.runs.record.record", note("record", recording))
    monkeypatch.setattr("lfiw.training.resume.resume_all", note("resume", [training]))
    for name in ("evaluate", "record", "resume"):
        with pytest.raises(SystemExit) as ended:
            main([name, str(training.folder)])
        assert ended.value.code == 0
    assert called == ["evaluate", "record", "resume"]
