"""--track, track= and lfiw track, in whole trainings."""

import re
import shutil
import signal
from pathlib import Path

import pytest
from fake_tracker import NAME, FakeTracker
from processes import finish, wait_for
from small import as_options, small
from trainings import command, contents, rows

import lfiw
import lfiw.tracking
from lfiw.runs.read import read_evaluations
from lfiw.runs.verify import verify_run
from lfiw.tracking import beside, tracker_names

ENV = "environments:make_point"
SETTINGS = as_options({**small("uniform"), "checkpoint.every_env_steps": 300})


def train(out: Path, **options: object) -> Path:
    options = {"out": out, "quiet": True, **small("uniform"), **options}
    return lfiw.train(ENV, "sac", "uniform", **options).folder


def returns(folder: Path, seed: int = 0) -> list[tuple[int, float]]:
    own = [row for row in read_evaluations(folder) if row["seed"] == seed]
    return [(row["env_steps"], row["return_mean"]) for row in own]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training that nobody follows."""
    return train(tmp_path_factory.mktemp("plain"), seeds=(0, 1))


def test_a_training_is_followed_and_has_the_same_bits(
    tmp_path: Path, plain: Path, fake: FakeTracker
) -> None:
    folder = train(tmp_path, seeds=(0, 1), track=NAME)
    assert rows(folder) == rows(plain) and contents(folder) == contents(plain)
    for seed in (0, 1):
        assert fake.curve("eval/mean_reward", seed) == returns(folder, seed) != []
        assert fake.curve("state", seed) == [(600, "finished")]
    assert fake.curve("train/critic_loss")
    problems, outcome = verify_run(folder)
    assert problems == [] and "all files are as your training left them" in outcome


@pytest.mark.parametrize("fault", ["hangs", "dies", "raises"])
def test_no_tracker_stops_a_training_or_changes_it(
    tmp_path: Path, plain: Path, fake: FakeTracker, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("FAKE_FAULT", fault)
    if fault == "hangs":
        monkeypatch.setattr(beside, "PATIENCE_SECONDS", 0.1)
    folder = train(tmp_path, seeds=(0, 1), track=[NAME])
    assert rows(folder) == rows(plain) and contents(folder) == contents(plain)
    assert verify_run(folder)[0] == []


def test_a_training_that_is_interrupted_goes_on_in_the_same_runs(
    tmp_path: Path, fake: FakeTracker
) -> None:
    """Rows after the checkpoint, which the resume cuts off and writes again, come once."""
    out = tmp_path / "runs"
    options = ("--replay", "uniform", "--out", str(out), "--track", NAME)
    training = command("train", ENV, *options, *SETTINGS, "--set", "env_steps=100000")
    wait_for(lambda: len(fake.curve("eval/mean_reward")) > 3, training)
    training.send_signal(signal.SIGKILL)
    training.communicate()
    wait_for(lambda: fake.told("finish"))
    (folder,) = out.glob("*/*")
    before = len(fake.curve("eval/mean_reward"))
    resumed = command("resume", str(folder), "--track", NAME)
    wait_for(lambda: len(fake.curve("eval/mean_reward")) > before + 1, resumed)
    resumed.send_signal(signal.SIGINT)
    output = finish(resumed, code=130)
    assert "lfiw resume" in output and "Traceback" not in output
    assert fake.curve("eval/mean_reward") == returns(folder)
    first, second = (entry["options"] for entry in fake.told("init"))
    assert first["name"] == second["name"] and (first["resume"], second["resume"]) == (
        *("never", "allow"),
    )
    assert [state for _, state in fake.curve("state")] == ["unfinished", "unfinished"]
    assert verify_run(folder)[0] == []


def test_a_finished_training_is_sent_later_and_once(
    tmp_path: Path, plain: Path, fake: FakeTracker
) -> None:
    folder = tmp_path / "runs" / plain.name
    shutil.copytree(plain, folder)
    sealed = verify_run(folder)
    finish(command("track", str(tmp_path / "runs"), "--to", NAME))
    assert fake.curve("eval/mean_reward", 1) == returns(folder, 1) != []
    told = len(fake.told("log"))
    finish(command("track", str(folder), "--to", NAME))
    assert [entry for entry in fake.told("log")[told:] if "video" not in entry["metrics"]] == []
    assert verify_run(folder) == sealed


def test_what_was_not_sent_is_an_error_of_its_own_command(
    tmp_path: Path, plain: Path, fake: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAULT", "raises")
    folder = tmp_path / plain.name
    shutil.copytree(plain, folder)
    output = finish(command("track", str(folder), "--to", NAME), code=1)
    assert output.splitlines()[-1] == "lfiw: Not everything was sent to trackio."
    assert "trackio has not got all rows: ConnectionError" in output


def test_a_video_of_the_first_seed_is_shown(tmp_path: Path, fake: FakeTracker) -> None:
    pytest.importorskip("imageio_ffmpeg", reason="needs the extra video")
    folder = train(tmp_path, env_steps=400, track=NAME)
    ((env_steps, video),) = fake.curve("video")
    assert env_steps == 400 and video["video bytes"] > 1000
    assert not list(folder.rglob("*.mp4"))
    lfiw.resume(folder, env_steps=600, track=NAME, quiet=True)
    assert [env_steps for env_steps, _ in fake.curve("video")] == [400, 600]
    finish(command("track", str(folder), "--to", NAME))
    assert len(fake.curve("video")) == 2


def test_where_no_video_can_be_made_one_note_says_so(
    tmp_path: Path, fake: FakeTracker, capfd: pytest.CaptureFixture[str]
) -> None:
    """This environment knows no `render_mode`."""
    options = {**small("uniform"), "out": tmp_path, "track": NAME, "seeds": (0, 1)}
    lfiw.train("environments:make_bandit", "sac", "uniform", **options)
    notes = re.findall("Note: No video of .* for trackio: .*", capfd.readouterr().err)
    assert len(notes) == 1 and fake.curve("video") == []
    assert fake.curve("state") == fake.curve("state", 1) == [(600, "finished")]


BAD = [
    ("wnadb", "knows no tracker 'wnadb'. Did you mean wandb?"),
    ("", "knows no tracker ''"),
    ("wandb,tensorboard", "knows no tracker 'tensorboard'"),
]


@pytest.mark.parametrize(("given", "sentence"), BAD)
def test_unknown_trackers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, sentence: str
) -> None:
    monkeypatch.setattr(lfiw.tracking, "is_installed", lambda name: True)
    with pytest.raises(lfiw.InputError, match=re.escape(f"track {sentence}")):
        train(tmp_path / "runs", track=given)
    assert not (tmp_path / "runs").exists()


def test_a_missing_library_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lfiw.tracking, "is_installed", lambda name: False)
    for name in lfiw.tracking.TRACKERS:
        sentence = rf'^track {name} needs the library {name}: .* install "{name}>='
        with pytest.raises(lfiw.InputError, match=sentence):
            train(tmp_path / "runs", track=name)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "before", [("train", ENV), ("resume", "{folder}"), ("reproduce", "table1")]
)
def test_commands_refuse_before_anything_is_written(
    tmp_path: Path, plain: Path, before: tuple[str, ...]
) -> None:
    out = () if before[0] == "resume" else ("--out", str(tmp_path / "runs"))
    files = sorted(plain.rglob("*"))
    arguments = [argument.format(folder=plain) for argument in before]
    output = finish(command(*arguments, *out, "--track", "wnadb"), code=2)
    assert output == "lfiw: --track knows no tracker 'wnadb'. Did you mean wandb?\n"
    assert list(tmp_path.iterdir()) == [] and sorted(plain.rglob("*")) == files


def test_the_command_names_its_own_option(tmp_path: Path, plain: Path) -> None:
    output = finish(command("track", str(plain), "--to", "wnadb"), code=2)
    assert output.startswith("lfiw: --to knows no tracker 'wnadb'.")
    assert "Name at least one" in finish(command("track", "--to", NAME), code=2)
    output = finish(command("track", str(tmp_path / "nowhere"), "--to", NAME), code=2)
    assert "nowhere does not exist" in output or "needs the library" in output


def test_names_come_in_any_form(fake: FakeTracker) -> None:
    assert tracker_names(None) == tracker_names(()) == ()
    assert tracker_names(f"{NAME}, {NAME}") == tracker_names([NAME]) == (NAME,)
