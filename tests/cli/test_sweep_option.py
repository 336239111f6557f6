"""`lfiw train --sweep KEY=VALUE,VALUE...`: one method for each value."""

import json
from pathlib import Path

import pytest
from small import small

from lfiw.cli import main
from lfiw.cli.options import apply_sweeps
from lfiw.errors import InputError
from lfiw.learning.config import make_config
from lfiw.learning.team import seat

METHODS = [
    make_config("Pendulum-v1", "sac", replay, seeds=(0, 1)) for replay in ("uniform", "lfiw")
]


def test_every_method_that_has_the_setting_is_trained_once_for_each_value() -> None:
    configs, labels = apply_sweeps(METHODS, ["replay.temperature=1,2.5"])
    assert labels == ["", "temperature=1", "temperature=2.5"]
    assert configs[0] is METHODS[0]
    assert [config.replay.temperature for config in configs[1:]] == [1.0, 2.5]


def test_several_sweeps_make_every_combination() -> None:
    sweeps = ["replay.temperature=1,5", "agent.gamma=0.9,0.99"]
    configs, labels = apply_sweeps(METHODS[1:], sweeps)
    assert labels == [
        f"temperature={temperature}-gamma={gamma}"
        for temperature in ("1", "5")
        for gamma in ("0.9", "0.99")
    ]
    assert [(c.replay.temperature, c.agent.gamma) for c in configs] == [
        *[(1.0, 0.9), (1.0, 0.99), (5.0, 0.9), (5.0, 0.99)]
    ]


def test_values_of_a_traced_setting_share_one_program() -> None:
    configs, _ = apply_sweeps(METHODS, ["replay.temperature=1,2.5,5"])
    groups, seats = seat(configs)
    assert [len(group.seeds) for group in groups] == [2, 6]
    assert [(at.group, at.runs) for at in seats[1:]] == [
        *[(1, slice(0, 2)), (1, slice(2, 4)), (1, slice(4, 6))]
    ]
    static, _ = apply_sweeps(METHODS[1:], ["batch_size=64,128"])  # fixes shapes
    assert len(seat(static)[0]) == 2


@pytest.mark.parametrize(
    ("sweep", "sentence"),
    [
        ("replay.temperature", "--sweep takes KEY=VALUE,VALUE..., not 'replay.temperature'"),
        ("replay.temprature=1,2", "Did you mean replay.temperature"),
        ("replay.ovr=per,ere", "Did you mean replay.over?"),
        ("replay.temperature=1,1", "contain one twice"),
        ("replay.temperature=", "--sweep needs at least one name"),
        ("replay.temperature=cold,hot", "takes a value of type float, not 'cold'"),
    ],
)
def test_a_wrong_sweep_is_one_sentence(sweep: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence.replace(".", r"\.").replace("?", r"\?")):
        apply_sweeps(METHODS, [sweep])


def test_the_command_labels_folders_by_the_value(tmp_path: Path) -> None:
    settings = [f"{name}={value}" for name, value in small("lfiw").items()]
    settings = [text.replace("(", "").replace(")", "").replace(" ", "") for text in settings]
    command = ["train", "environments:make_point", "--out", str(tmp_path), "--workers", "0"]
    command += ["--sweep", "replay.temperature=1,5", "--set", *settings]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 0
    found = {
        path.parent.name: json.loads(path.read_text())["config"]["replay"]["temperature"]
        for path in tmp_path.rglob("config.json")
    }
    assert found == {"sac-lfiw-temperature=1": 1.0, "sac-lfiw-temperature=5": 5.0}
