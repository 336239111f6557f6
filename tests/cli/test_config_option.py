"""`lfiw train --config FILE`: a run again, or settings of one's own."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from small import as_options, small
from trainings import ENV, TIME_FIELDS

from lfiw.cli import main, parse_command
from lfiw.errors import InputError
from lfiw.learning.config import make_config
from lfiw.settings import override, to_json


def configs(*arguments: str) -> Any:
    return parse_command(["train", *arguments]).configs()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Written by hand: some keys alone."""
    content = {"env": {"id": "A-v1"}, "env_steps": 9000, "seeds": [3, 4], "deterministic": True}
    content["replay"] = {"name": "lfiw", "temperature": 2.5}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(content))
    return path


def test_file_written_by_hand(file: Path) -> None:
    (config,) = configs("--config", str(file))
    general = {"env_steps": 9000, "seeds": (3, 4), "deterministic": True}
    assert config == make_config("A-v1", **general, **{"replay.temperature": 2.5})


def test_what_a_run_recorded(tmp_path: Path) -> None:
    made = make_config("A-v1", "td3", "per", "paper", seeds=(1, 2))
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"config": to_json(made), "versions": {}, "command": ["x"]}))
    assert configs("--config", str(path), "--trust-env") == [made]


@pytest.mark.parametrize("inside", ["config.json", "mine.json"])
def test_environment_that_a_stranger_names_is_not_made(tmp_path: Path, inside: str) -> None:
    """In what a training recorded, or in any file beside it; unless the user typed it."""

    def write(config: Any) -> None:
        values = to_json(config)
        (tmp_path / inside).write_text(json.dumps(values))
        (tmp_path / "config.json").write_text(json.dumps({"config": values}))

    strange = make_config("a:b", **{"env.kwargs.path": "x"})
    write(strange)
    path = str(tmp_path / inside)
    for env in ((), ("c:d",)):  # the text beside a typed id is still the stranger's
        with pytest.raises(InputError, match="runs code: it imports"):
            configs(*env, "--config", path)
    assert configs("--config", path, "--trust-env") == [strange]
    write(override(strange, "env.kwargs", {}))
    assert configs("c:d", "--config", path)[0].env.id == "c:d"


def test_options_that_are_given_override_the_file(file: Path) -> None:
    (before,) = configs("--config", str(file))
    (config,) = configs("--config", str(file), "--env-steps", "80", "--num-seeds", "1")
    assert config == dataclasses.replace(before, env_steps=80, seeds=(0,))
    (config,) = configs("--config", str(file), "--set", "replay.temperature=3", "env.kwargs.g=1")
    assert config.replay.temperature == 3 and config.env.kwargs == {"g": 1}
    (config,) = configs("--config", str(file), "--replay", "lfiw")
    assert config == before  # the file's own
    (config,) = configs("--config", str(file), "--replay", "uniform", "--agent", "td3")
    assert config == override(override(before, "replay", "uniform"), "agent", "td3")
    made = configs("B-v2,m:f", "--config", str(file))
    assert [own.env.id for own in made] == ["B-v2", "m:f"]
    assert {own.env_steps for own in made} == {9000}


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (None, [], "mine.json does not exist."),
        ("{", [], "mine.json is damaged"),
        ("[1]", [], "mine.json is damaged: it holds no object."),
        ('{"config": 3}', [], "mine.json holds no settings, such as"),
        ('{"env": "A-v1"}', [], "mine.json holds no settings, such as"),
        ('{"env_steps": 9}', [], "mine.json names no environment"),
        ('{"env": {"id": 3}}', [], "mine.json names no environment"),
        ('{"env": {"id": "A-v1"}, "spede": 1}', [], "mine.json: Unknown setting 'spede'"),
        ('{"env": {"id": "A-v1"}, "env_step": 1}', [], "Did you mean env_steps?"),
        ('{"env": {"id": "A-v1"}, "env_steps": "many"}', [], "mine.json: env_steps takes a value"),
        (
            '{"env": {"id": "A-v1"}, "agent": {}}',
            [],
            'mine.json: agent has no name, such as {"agent"',
        ),
        ('{"env": {"id": "A-v1"}}', ["--preset", "paper"], "leave out --preset."),
        ('{"env": {"id": "A-v1"}}', ["--agent", "sca"], "Did you mean sac?"),
    ],
)
def test_file_that_cannot_be_used(
    content: str | None, options: list[str], words: str, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "mine.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit) as exited:
        main(["train", "--config", str(path), "--out", str(tmp_path / "out"), *options])
    (line,) = capsys.readouterr().err.splitlines()
    assert exited.value.code == 2
    assert line.startswith("lfiw: ") and words in line
    assert not (tmp_path / "out").exists()


def test_folder_in_place_of_the_file_is_answered_with_the_file(tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--config", str(tmp_path)])
    assert f"name a file, such as {tmp_path / 'config.json'}." in capsys.readouterr().err


def test_a_run_is_repeated_to_the_same_bits(tmp_path: Path) -> None:
    settings = as_options(small("lfiw", env_steps=200))
    folder = Path("environments-make_point") / "sac-lfiw"
    first, again = tmp_path / "first" / folder, tmp_path / "again" / folder
    common = ("--workers", "0", "--quiet", "--devices", "cpu:1")
    for options in (
        (ENV, *settings, "--seeds", "3", "--out", str(tmp_path / "first")),
        ("--config", str(first / "config.json"), "--out", str(tmp_path / "again")),
    ):
        with pytest.raises(SystemExit) as exited:
            main(["train", *options, *common])
        assert exited.value.code == 0
    policy = Path("policies") / "seed-3.safetensors"
    assert (first / policy).read_bytes() == (again / policy).read_bytes()
    logs = [(one / "metrics.jsonl").read_text().splitlines() for one in (first, again)]
    for one, other in zip(*logs, strict=True):
        before, after = json.loads(one), json.loads(other)
        assert {k: v for k, v in before.items() if k not in TIME_FIELDS} == {
            k: v for k, v in after.items() if k not in TIME_FIELDS
        }
