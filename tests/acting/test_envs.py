import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from environments import UNSUPPORTED, Echo, Point

from lfiw.acting.envs import make_env
from lfiw.acting.policy import ActionScale
from lfiw.acting.rollout import EnvRunner
from lfiw.acting.spaces import check_spaces, probe_env
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.types import EnvSpec
from lfiw.wording import on_command_line


def refusal(env_id: str, **kwargs: Any) -> str:
    with pytest.raises(InputError) as raised:
        probe_env(EnvConfig(env_id, kwargs))
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_actions_are_rescaled_by_hand() -> None:
    """Bounds [-3, 1] and [10, 30]: -1 is the low end, 0 the middle, 1 the high end."""
    scale = ActionScale(np.float32([-3, 10]), np.float32([1, 30]))
    actions = np.float32([[-1, -1], [0, 0], [1, 1], [0.5, -0.5], [-1, 1]])
    expected = [[-3, 10], [-1, 20], [1, 30], [0, 15], [-3, 30]]
    np.testing.assert_allclose(scale.to_env(actions), expected)
    assert scale.to_env(actions).dtype == np.float32


def test_rescaled_actions_never_leave_the_bounds() -> None:
    rng = np.random.default_rng(0)
    low = rng.uniform(-5, 5, 1000).astype(np.float32)
    high = low + rng.uniform(1e-3, 5, 1000).astype(np.float32)
    scale = ActionScale(low, high)
    for action in (-1.0, 1.0, rng.uniform(-1, 1, 1000), -1.1, 1.1):
        scaled = scale.to_env(np.broadcast_to(np.float32(action), 1000))
        assert np.all(scaled >= low)
        assert np.all(scaled <= high)


def test_spaces_give_sizes_and_bounds() -> None:
    spec, scale = check_spaces(Echo(), "Echo")
    assert spec == EnvSpec(obs_size=2, action_size=2)
    np.testing.assert_array_equal(scale.low, [-3, 10])
    np.testing.assert_array_equal(scale.high, [1, 30])


def test_environment_by_id_with_arguments() -> None:
    env = make_env(EnvConfig("Pendulum-v1", {"g": 3.5}))
    assert env.unwrapped.g == 3.5
    spec, scale = probe_env(EnvConfig("Pendulum-v1"))
    assert spec == EnvSpec(obs_size=3, action_size=1)
    assert (scale.low, scale.high) == (-2, 2)


def test_environment_by_factory_with_arguments() -> None:
    env = make_env(EnvConfig("environments:make_point", {"length": 7}))
    assert isinstance(env, Point)
    assert env.length == 7


def test_class_serves_as_a_factory() -> None:
    assert isinstance(make_env(EnvConfig("environments:Point")), Point)


def test_factory_in_the_working_directory(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "garage.py").write_text("from environments import make_point as make_it\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert isinstance(make_env(EnvConfig("garage:make_it")), Point)


def test_id_that_names_its_module(tmp_path: Path, monkeypatch: Any) -> None:
    """Gymnasium's own form `module:Name-v0` imports the module that registers the name."""
    (tmp_path / "registering.py").write_text(
        "import gymnasium\ngymnasium.register('Registered-v0', entry_point='environments:Point')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        env = make_env(EnvConfig("registering:Registered-v0"))
        assert isinstance(env.unwrapped, Point)
    finally:
        gymnasium.registry.pop("Registered-v0", None)


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "environments:make_diary"])
def test_time_limit_of_the_config(env_id: str) -> None:
    kwargs = {"length": 100} if "diary" in env_id else {}
    env = make_env(EnvConfig(env_id, kwargs, max_episode_steps=3))
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


@pytest.mark.parametrize(("factory", "words"), UNSUPPORTED.items())
def test_what_is_not_supported_gets_a_sentence(factory: str, words: str) -> None:
    message = refusal(f"environments:{factory}")
    assert words in message
    assert f"environments:{factory}" in message


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("Pendulumm-v1", "Unknown environment 'Pendulumm-v1'. Did you mean Pendulum-v1?"),
        ("pendulum-v1", "Did you mean Pendulum-v1?"),
        ("Pendulum-v7", "Did you mean Pendulum-v1?"),
        ("environments:make_poin", "has no 'make_poin'. Did you mean make_point?"),
        ("nowhere_at_all:make", "No module named 'nowhere_at_all'"),
        ("environments:UNSUPPORTED", "could not be made"),
        (":", ""),
        ("", ""),
        ("a b/c", ""),
    ],
)
def test_unknown_environments(env_id: str, words: str) -> None:
    assert words in refusal(env_id)


def test_wrong_arguments_get_a_sentence() -> None:
    for env_id in ("environments:make_point", "Pendulum-v1"):
        assert re.search("could not be made: TypeError.*wheels", refusal(env_id, wheels=4))


def test_environment_that_raises_gets_a_sentence() -> None:
    message = refusal("environments:make_faulty", fault="raise", at=1)
    assert "cannot be stepped: RuntimeError: the left wheel came off" in message
    message = refusal("environments:make_faulty", fault="reset raises", at=0)
    assert "RuntimeError: the start button is stuck" in message


def test_advice_for_unbounded_actions_works(tmp_path: Path, monkeypatch: Any) -> None:
    """The expression of the sentence, copied into a function, as a user would."""
    message = refusal("environments:make_unbounded_action")
    (advice,) = re.findall(r"returns (gymnasium\..*\)) bounds them", message)
    (tmp_path / "bounding.py").write_text(
        "import gymnasium\n"
        "from environments import Point, box\n"
        "class Free(Point):\n    action_space = box(2)\n"
        f"def make():\n    env = Free()\n    return {advice}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    spec, scale = probe_env(EnvConfig("bounding:make"))
    assert spec.action_size == 2
    assert (*scale.low, *scale.high) == (-1, -1, 1, 1)
    rows = EnvRunner(EnvConfig("bounding:make"), seed=0).collect(None, 40).rows
    assert np.isfinite(rows).all()


def test_environment_that_has_both_kinds_of_actions() -> None:
    message = refusal("environments:Lander")
    assert 'made with **{"env.kwargs.continuous": True} it has one' in message
    with on_command_line():
        assert "--set env.kwargs.continuous=true" in refusal("environments:Lander")
    assert probe_env(EnvConfig("environments:Lander", {"continuous": True}))[0].action_size == 1
    assert "continuous" not in refusal("environments:make_discrete_action")


def test_module_that_fails_is_told_with_its_line(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "importing.py").write_text("import math\nimport nowhere_at_all\n")
    (tmp_path / "misspelt.py").write_text("import math\ndef make(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "No module named 'nowhere_at_all' (importing.py:2)." in refusal("importing:make")
    assert "SyntaxError: invalid syntax (misspelt.py, line 2)." in refusal("misspelt:make")


def test_bounds_too_wide_for_their_type_are_unbounded() -> None:
    """high - low overflows, so no action could be rescaled."""
    assert "bound" in refusal("environments:make_huge_action")


def test_mujoco_writes_neither_to_the_terminal_nor_to_a_file(tmp_path: Path) -> None:
    """Its own process, since what MuJoCo says is said when it is first imported."""
    program = "from lfiw.acting.spaces import *; probe_env(EnvConfig('HalfCheetah-v5'))"
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
