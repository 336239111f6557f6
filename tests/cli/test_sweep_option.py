"""`lfiw train --sweep KEY=VALUE,VALUE...`: one method for each value."""

import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from small import small

from lfiw.cli import main, parse_command
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
        ("replay.temperature=5,2,5.0", "gives replay.temperature equal values, 5 and 5.0: leave"),
        ("agent.hidden_sizes=(32,32),(64,64)", "lists cannot be swept"),
        ("env.kwargs.names=[1],[2]", "lists cannot be swept"),
    ],
)
def test_a_wrong_sweep_is_one_sentence(sweep: str, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        apply_sweeps(METHODS, [sweep])


@pytest.mark.parametrize(
    ("sweeps", "name"),
    [
        (["replay.temperature=1,2", "replay.temperature=3,4"], "replay.temperature"),
        (["replay.over=per,ere", "replay.sampling=cer,lap"], "replay.over"),  # its older name
    ],
)
def test_a_setting_is_swept_once(sweeps: list[str], name: str) -> None:
    """The second sweep would overwrite the values that the first put into the label."""
    with pytest.raises(InputError, match=f"--sweep names {name} twice: give all its values"):
        apply_sweeps(METHODS, sweeps)


@pytest.mark.parametrize("key", ["replay.over", "replay.sampling"])
def test_a_setting_that_is_set_is_not_swept(key: str) -> None:
    """By whichever of its names."""
    command = parse_command(["train", "A-v1", "--set", f"{key}=cer", "--sweep", f"{key}=per,ere"])
    with pytest.raises(InputError, match=r"replay\.over is both set and swept: leave out one"):
        command.run(Console())


def test_a_setting_of_another_strategy_is_said_to_be_one() -> None:
    with pytest.raises(InputError, match=r"replay\.temperature is no setting of uniform, but of "):
        apply_sweeps(METHODS[:1], ["replay.temperature=1,2"])
    with pytest.raises(InputError, match=r"agent\.policy_delay is no setting of sac, but of td3"):
        apply_sweeps(METHODS, ["agent.policy_delay=1,2"])


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
