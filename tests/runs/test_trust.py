"""Whose environments are made: a config.json can name any function of any module."""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hand_made import linear, make_run, save_snapshot
from processes import finish, import_path

from lfiw.cli import main
from lfiw.cluster.ray import Share, submit
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.import_path import in_method_folder
from lfiw.paper.reproduce import Reproduction
from lfiw.runs import trust
from lfiw.runs.config_file import read_config, write_config
from lfiw.runs.evaluate import evaluate
from lfiw.runs.key import key_path, signature
from lfiw.runs.record import record
from lfiw.runs.trust import is_harmless, is_own, keyless_note, signed, trusted_config
from lfiw.settings import to_json
from lfiw.training.resume import resume, resume_all

PENDULUM = {"policy": linear([[0.0], [0.0], [0.0]], [0.0])}


@pytest.fixture
def stranger(tmp_path: Path) -> tuple[Path, Path]:
    """A folder that was downloaded, and what its code would leave behind."""
    witness = tmp_path / "witness"
    code = {"astr": f"import os; os.mkdir({str(witness)!r})", "dict": {}}
    env = EnvConfig("numpy.testing:runstring", code)
    run = make_run(tmp_path / "run", "Pendulum-v1", "td3", "uniform")
    save_snapshot(run, 100, PENDULUM)
    content = read_config(run.folder)
    content["config"]["env"] = to_json(env)
    write_config(run.folder, content)
    return run.folder, witness


USES: dict[str, Callable[..., object]] = {
    "evaluate": evaluate,
    "record": record,
    "resume": lambda folder, **trust: resume(folder, allow_inexact=True, quiet=True, **trust),
    "reproduce": lambda folder, **trust: Reproduction("smoke", folder.parent).analyse_elsewhere(
        "q-quality", [folder], **trust
    ),
}


@pytest.mark.parametrize("use", USES)
def test_code_of_a_stranger_is_not_run(
    stranger: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    folder, witness = stranger
    monkeypatch.chdir(folder.parent)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", sys)
    with pytest.raises(
        InputError, match=r"imports numpy\.testing and calls runstring.*trust_env=True"
    ):
        USES[use](folder)
    assert not witness.exists()


def test_it_is_run_where_the_user_says_so(stranger: tuple[Path, Path]) -> None:
    folder, witness = stranger
    with pytest.raises(InputError, match="not a gymnasium"):
        evaluate(folder, trust_env=True)
    assert witness.exists()


@pytest.mark.parametrize("command", [["evaluate"], ["resume", "--allow-inexact"]])
def test_commands_refuse_in_a_sentence(
    stranger: tuple[Path, Path], capfd: Any, command: list[str]
) -> None:
    folder, witness = stranger
    with pytest.raises(SystemExit) as exited:
        main([*command, str(folder)])
    (line,) = capfd.readouterr().err.splitlines()
    assert exited.value.code == 2 and "--trust-env" in line and not witness.exists()


@pytest.mark.parametrize(("answer", "trusted"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_terminal_is_asked(
    stranger: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, answer: str, trusted: bool
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", shown)
    trust.said_yes.cache_clear()
    try:
        trusted_config(stranger[0])
    except InputError:
        assert not trusted
    else:
        assert trusted
    assert "numpy.testing" in shown.getvalue() and "[y/N]" in shown.getvalue()
    trust.said_yes.cache_clear()


@pytest.mark.parametrize(
    ("env_id", "kwargs", "harmless"),
    [
        ("Pendulum-v1", {}, True),
        ("HalfCheetah-v5", {"reset_noise_scale": 0.2, "frame_skip": 5}, True),
        ("Ant-v5", {"healthy_z_range": [0.2, 1.0], "terminate_when_unhealthy": False}, True),
        ("HalfCheetah-v5", {"xml_file": "/tmp/any.xml"}, False),
        ("Pendulum-v1", {"g": {"__class__": 1}}, False),
        ("gymnasium:Pendulum-v1", {}, False),
        ("antigravity:Pendulum-v1", {}, False),
        ("Unknown-v0", {}, False),
        ("GymV26Environment-v0", {"env_id": 1}, False),
    ],
)
def test_what_needs_no_trust(env_id: str, kwargs: dict[str, Any], harmless: bool) -> None:
    assert is_harmless({"id": env_id, "kwargs": kwargs}) == harmless


def own_run(folder: Path, env_id: str) -> Path:
    run = make_run(folder, env_id, "td3", "uniform")
    save_snapshot(run, 100, PENDULUM)
    content = read_config(folder)
    write_config(folder, {**content, **signed(content["config"]["env"])})
    return folder


def test_a_folder_stays_its_users_where_it_goes(tmp_path: Path) -> None:
    folder = own_run(tmp_path / "run", "environments:make_point")
    shutil.copytree(folder, tmp_path / "copy")
    trusted_config(tmp_path / "copy")
    content = json.loads((folder / "config.json").read_text())
    content["config"]["env"]["kwargs"] = {"other": 1}
    write_config(folder, content)
    with pytest.raises(InputError, match="not begun by you"):
        trusted_config(folder)


def test_a_signature_of_another_user_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own_run(tmp_path / "run", "environments:make_point")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(InputError, match="not begun by you"):
        trusted_config(folder)
    trusted_config(folder, EnvConfig("environments:make_point"))  # as typed for a cluster
    with pytest.raises(InputError, match="not begun by you"):
        trusted_config(folder, EnvConfig("environments:make_other"))


def test_what_a_user_trains_and_trusts_is_signed(tmp_path: Path) -> None:
    """A training is begun, loses its signature as those of older versions have none, and gets it
    again with the flag."""
    import lfiw

    settings: dict[str, Any] = {"env_steps": 40, "phase_env_steps": 20, "batch_size": 8}
    settings |= {"learning_starts": 1000, "eval_episodes": 1, "agent.hidden_sizes": (4,)}
    done = lfiw.train(
        "environments:make_point", "sac", "uniform", out=tmp_path, quiet=True, workers=0, **settings
    )
    content = read_config(done.folder)
    assert is_own(content)
    write_config(done.folder, {k: v for k, v in content.items() if k != "signature"})
    with pytest.raises(InputError, match="trust_env=True"):
        resume(done, env_steps=60, quiet=True)
    resume(done, env_steps=60, trust_env=True, quiet=True, workers=0)
    assert is_own(read_config(done.folder))
    resume_all([done], env_steps=80, quiet=True, workers=0)


def test_a_cluster_takes_over_who_began(tmp_path: Path) -> None:
    """The signature travels with the task: nodes have keys of their own."""
    sent: list[Any] = []

    class Task:
        def remote(self, *values: Any) -> None:
            sent.extend(values)

    class Ray:
        def remote(self, **resources: Any) -> Any:
            return lambda function: Task()

    env = to_json(EnvConfig("environments:make_point"))
    submit(Ray(), tmp_path, {"env": env}, Share(1, 0, 0), None)
    assert sent[-1] == signed(env) != {}


PLANTED = """
import pathlib
pathlib.Path(__file__).with_name("witness").touch()
def make():
    raise RuntimeError
"""


def test_nothing_is_imported_from_a_method_folder(tmp_path: Path) -> None:
    """Although its environment is signed: a stranger may have put the module there, or one of the
    name of any other that is imported."""
    folder = own_run(tmp_path / "run", "planted:make")
    for name in ("planted", "rich", "gymnasium", "lfiw"):
        (folder / f"{name}.py").write_text(PLANTED)
    for here in (folder, folder / "policies"):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("lfiw")), "evaluate", str(folder)],
            cwd=here,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2 and "No module named 'planted'" in done.stderr
    (folder / "lfiw.py").unlink()  # which `python -m` finds before anything of ours is run
    module = subprocess.Popen(
        [sys.executable, "-m", "lfiw", "evaluate", "."],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    finish(module, code=2)
    assert not (folder / "witness").exists()


def test_modules_beside_the_runs_are_found(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"of": "another program"}')
    folder = own_run(tmp_path / "runs" / "run", "planted:make")
    (tmp_path / "planted.py").write_text(PLANTED)
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lfiw")), "evaluate", str(folder)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "RuntimeError" in done.stderr and (tmp_path / "witness").exists()
    assert in_method_folder(folder / "policies") and not in_method_folder(tmp_path)


SIGN = "from lfiw.runs.key import signature; print(signature('test', b''))"


def test_the_key_is_private_and_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By processes that all want it at the same time."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SIGN],
            env=os.environ | {"PYTHONPATH": import_path()},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    assert len({finish(process) for process in processes}) == 1
    assert [path.name for path in key_path().parent.iterdir()] == ["key"]
    assert key_path().stat().st_mode & 0o777 == 0o600
    before = signature("test", b"")
    key_path().chmod(0o644)  # others may have read it
    assert before and signature("test", b"") == ""


def test_without_a_home_there_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    env = to_json(EnvConfig("environments:make_point"))
    assert signed(env) == {}
    assert "trust_env=True" in keyless_note(env)
    assert keyless_note({"id": "Pendulum-v1"}) == ""
