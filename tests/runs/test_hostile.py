"""B6: method folders that somebody made to do harm. Nothing of them is executed, and each is
refused in a sentence, within memory and time that an honest one could need."""

import hashlib
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import PATIENCE
from safetensors.numpy import save, save_file
from trainings import ENV

import lfiw
from lfiw.cli import main
from lfiw.errors import InputError, RunError
from lfiw.results.curves import read_curves
from lfiw.runs.checkpoint import list_checkpoints, manifest_bytes
from lfiw.runs.config_file import write_config
from lfiw.runs.evaluate import evaluate
from lfiw.runs.files import json_hash, refuse_links
from lfiw.runs.read import read_metrics
from lfiw.runs.verify import verify_run
from lfiw.training.resume import resume_all

SETTINGS: dict[str, Any] = {
    **{"learning_starts": 50, "random_env_steps": 50, "batch_size": 16, "env_steps": 100},
    **{"agent.hidden_sizes": (8, 8), "phase_env_steps": 50, "updates_per_call": 10},
    "eval_episodes": 1,
}
MEMORY = 4 * 2**30  # of address space, for Python, numpy and what a policy may take


class Payload:
    """Unpickled, it would create the file."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.witness),))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("honest")
    return lfiw.train(ENV, "sac", "uniform", out=out, quiet=True, **SETTINGS).folder


@pytest.fixture
def run(honest: Path, tmp_path: Path) -> Path:
    shutil.copytree(honest, tmp_path / "run")
    return tmp_path / "run"


def header(entries: dict[str, Any], size: int = 0) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * size


def tensor(shape: list[int], end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}


def sparse(path: Path, size: int, content: bytes = b"") -> None:
    path.write_bytes(content)
    os.truncate(path, size)


def object_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.array([Payload(path.parent / "witness")], object), allow_pickle=True)


POLICIES: dict[str, Callable[[Path], object]] = {
    "pickle": lambda path: path.write_bytes(pickle.dumps(Payload(path.parent / "witness"))),
    "object array": object_array,
    "empty": lambda path: path.write_bytes(b""),
    "header of 2^63": lambda path: path.write_bytes(b"\xff" * 7 + b"\x7f{}"),
    "shape of 2^40": lambda path: path.write_bytes(header({"x": tensor([2**40], 2**42)})),
    "shape that overflows": lambda path: path.write_bytes(
        header({"x": tensor([2**62, 4, 2**62], 16)}, 16)
    ),
    "negative shape": lambda path: path.write_bytes(header({"x": tensor([-4], 16)}, 16)),
    "offsets outside": lambda path: path.write_bytes(header({"x": tensor([4], 16)}, 4)),
    "unknown type": lambda path: path.write_bytes(header({"x": tensor([4], 16, "OBJ")}, 16)),
    "100k entries": lambda path: path.write_bytes(
        header({f"x{index}": tensor([0], 0) for index in range(100_000)})
    ),
    "deep header": lambda path: path.write_bytes(
        struct.pack("<Q", 200_000) + b'{"x":' + b"[" * 199_995
    ),
    "sparse file of 2^40 bytes": lambda path: sparse(path, 2**40),
    "honest header, 2^40 bytes": lambda path: sparse(
        path, 2**40, header({"x": tensor([2**38], 2**40)})
    ),
    "other arrays": lambda path: save_file({"x": np.zeros(3)}, path),
    "weights without a shape": lambda path: save_file(
        {name: np.zeros((), np.float32) for name in ("gaussian.0.weight", "gaussian.0.bias")}, path
    ),
    "layers that do not fit": lambda path: path.write_bytes(
        save(
            {
                "deterministic.0.weight": np.zeros((2, 3), np.float32),
                "deterministic.0.bias": np.zeros(2, np.float32),
                "action_low": np.zeros(2, np.float32),
                "action_high": np.ones(2, np.float32),
            }
        )
    ),
    "link": lambda path: (path.rename(path.parent / "real"), path.symlink_to("real")),
    "device": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
}

READ_POLICY = """
import resource, sys
import lfiw
from lfiw.errors import InputError
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
try:
    lfiw.load_policy(sys.argv[1])
except InputError as error:
    print(error)
    status = open("/proc/self/status").read()
    print(status.split("VmHWM:")[1].split()[0])
"""


@pytest.mark.parametrize("kind", POLICIES)
def test_hostile_policy(run: Path, kind: str) -> None:
    path = run / "policies" / "seed-0.safetensors"
    POLICIES[kind](path)
    with pytest.raises(InputError, match=r"seed-0|no policy"):
        lfiw.load_policy(run)
    problems, _ = verify_run(run)
    assert problems and not (path.parent / "witness").exists()


@pytest.mark.parametrize("kind", ["shape of 2^40", "sparse file of 2^40 bytes", "100k entries"])
def test_hostile_policy_takes_no_memory(run: Path, kind: str) -> None:
    """In a process that may take little, and counts what it took."""
    POLICIES[kind](run / "policies" / "seed-0.safetensors")
    done = subprocess.run(
        [sys.executable, "-c", READ_POLICY, str(run), str(MEMORY)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sentence, kilobytes = done.stdout.splitlines()
    assert "seed-0" in sentence and int(kilobytes) < 500_000


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """A manifest with the right hash."""
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)
    manifest["sha256"] = json_hash(manifest)
    (path / "manifest.json").write_bytes(manifest_bytes(manifest))


def set_fact(name: str, value: Any) -> Callable[[Path], None]:
    def change(manifest: dict[str, Any]) -> None:
        part: Any = manifest["facts"]
        *path, last = name.split("/")
        for key in path:
            part = part[key]
        part[last] = value

    return lambda path: rewrite(path, change)


def replace_arrays(content: bytes) -> Callable[[Path], None]:
    """Another file of arrays, with the right size and hash in the manifest."""

    def change(path: Path) -> None:
        (path / "seed-0.safetensors").write_bytes(content)
        described = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        rewrite(path, lambda manifest: manifest["files"].update({"seed-0.safetensors": described}))

    return change


def name_file(name: str, size: Any = 1) -> Callable[[Path], None]:
    entry = {name: {"size": size, "sha256": "0" * 64}}
    return lambda path: rewrite(path, lambda manifest: manifest["files"].update(entry))


CHECKPOINTS: dict[str, Callable[[Path], object]] = {
    "traversal": name_file("../../../secret"),
    "absolute": name_file("/etc/passwd"),
    "size of 2^40": name_file("x.safetensors", 2**40),
    "size below zero": name_file("x.safetensors", -1),
    "size that is no number": name_file("x.safetensors", "many"),
    "files that are none": lambda path: rewrite(path, lambda m: m.update(files=[1, 2])),
    "facts that are none": lambda path: rewrite(path, lambda m: m.update(facts=7)),
    "manifest of nested lists": lambda path: (path / "manifest.json").write_text("[" * 10**6),
    "manifest of a huge number": lambda path: (path / "manifest.json").write_text("9" * 10**6),
    "manifest of 2^40 bytes": lambda path: sparse(path / "manifest.json", 2**40),
    "manifest as a pickle": lambda path: (path / "manifest.json").write_bytes(
        pickle.dumps(Payload(path / "witness"))
    ),
    "pickled arrays": lambda path: replace_arrays(pickle.dumps(Payload(path / "witness")))(path),
    "100k arrays": replace_arrays(header({f"x{i}": tensor([0], 0) for i in range(100_000)})),
    "arrays of 2^40": replace_arrays(header({"x": tensor([2**40], 2**42)})),
    "other arrays": replace_arrays(save({"x": np.zeros(3)})),
    "negative steps": set_fact("env_steps", -1),
    "steps of 2^70": set_fact("env_steps", 2**70),
    "steps as text": set_fact("env_steps", "100"),
    "steps that were not collected": set_fact("env_steps", 50),
    "updates of 2^40": set_fact("updates", 2**60),
    "time without end": set_fact("wall_seconds", float("inf")),
    "log of 2^50 bytes": set_fact("log_bytes", 2**50),
    "rows that are not there": set_fact("segments/0/num_rows", 2**40),
    "rows without hashes": set_fact("segments/0/sha256", []),
    "rows of another size": set_fact("segments/0/row_bytes", 4),
    "seeds elsewhere": lambda path: rewrite(
        path, lambda m: m["facts"].update(segments={"../../x": m["facts"]["segments"]["0"]})
    ),
    "no runners": set_fact("runners", {}),
    "runner without a state": set_fact("runners/0", {"action_rng": 1}),
    "generator that is none": set_fact("runners/0/action_rng", {"bit_generator": "os.system"}),
    "episodes that are none": set_fact("episodes", [[["a", "b"]]]),
    "no config": set_fact("config", None),
    "stopped seeds that are none": set_fact("stopped", {"7": "tired"}),
    "stopped as a list": set_fact("stopped", [1]),
    "half a phase": set_fact("episodes", [[]]),
    "a phase of nobody": lambda path: rewrite(
        path, lambda m: m["facts"].update(episodes=[], faults=[])
    ),
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_hostile_checkpoint(run: Path, kind: str) -> None:
    """Both checkpoints are hostile or gone, so that none can be gone back to."""
    newest, before = list_checkpoints(run)
    shutil.rmtree(before)
    CHECKPOINTS[kind](newest)
    # Beyond the last step there would be something to train.
    with pytest.raises((InputError, RunError)) as refused:
        resume_all([run], env_steps=150, workers=0, quiet=True)
    assert "\n" not in str(refused.value)
    assert not (newest / "witness").exists()


def test_checkpoint_that_does_not_say_how_long_the_run_was(run: Path) -> None:
    """Its snapshots may be of another length: those that lie ahead are taken anew."""
    newest, _ = list_checkpoints(run)
    rewrite(newest, lambda manifest: manifest["facts"]["config"]["config"].pop("env_steps"))
    resume_all([run], env_steps=150, workers=0, quiet=True)
    assert read_metrics(run)[-1]["env_steps"] == 150


def test_a_file_that_vanishes_is_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As beside a training, which removes old checkpoints."""
    walk = [(str(tmp_path), ["gone"], ["gone.tmp"])]
    monkeypatch.setattr(os, "walk", lambda folder: iter(walk))
    refuse_links(tmp_path)
    (tmp_path / "gone").symlink_to(tmp_path)
    with pytest.raises(InputError, match="gone is a link or a special file"):
        refuse_links(tmp_path)


def test_links_lead_nowhere(run: Path, tmp_path: Path) -> None:
    """What a resume would cut, lock or overwrite must be a file of the folder itself."""
    victim = tmp_path / "victim"
    for name in ("lock", "metrics.jsonl", "config.tmp", "ring/seed-0/rows-000000.f32", "policies"):
        victim.write_text("precious")
        target = run / name
        kept = tmp_path / "kept"
        if target.exists():
            target.rename(kept)
        target.symlink_to(victim)
        with pytest.raises(InputError):
            resume_all([run], env_steps=150, quiet=True)
        assert verify_run(run)[0] != []
        assert victim.read_text() == "precious"
        target.unlink()
        if kept.exists():
            kept.rename(target)
    os.mkfifo(run / "policies" / "fifo")
    with pytest.raises(InputError, match="fifo"):
        resume_all([run], quiet=True)


CONFIGS: dict[str, bytes] = {
    "nested": b"[" * 10**6,
    "nested objects": b'{"a":' * 10**5,
    "huge number": b'{"config": ' + b"9" * 10**6 + b"}",
    "text": b"\xff\xfe\x00",
    "null": b"null",
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_hostile_configuration(run: Path, kind: str) -> None:
    (run / "config.json").write_bytes(CONFIGS[kind])
    for read in (lambda: resume_all([run], quiet=True), lambda: evaluate(run)):
        with pytest.raises(InputError, match=r"config\.json"):
            read()
    assert verify_run(run)[0] != []


def test_configuration_is_known_byte_by_byte(run: Path) -> None:
    """A cut that leaves the content is seen too."""
    content = (run / "config.json").read_bytes()
    (run / "config.json").write_bytes(content[:-1])
    assert json.loads(content[:-1]) == json.loads(content)
    (problem,), _ = verify_run(run)
    assert "config.json is damaged" in problem
    with pytest.raises(InputError, match=r"config\.json is damaged"):
        resume_all([run], quiet=True)


def use(run: Path, capfd: Any) -> None:
    """All commands that read a run without training it: a table or a sentence, no more."""
    for command in (["verify"], ["plot"], ["report"], ["results", "add"], ["evaluate"]):
        with pytest.raises(SystemExit) as exited:
            main([*command, str(run)])
        out, err = capfd.readouterr()
        assert exited.value.code in (0, 1, 2)
        assert len(err.splitlines()) <= 1 and "\x1b" not in out + err


WRONG_ENTRIES: dict[str, Any] = {
    "versions": [1],
    "hardware": "abacus",
    "command": [None, 1.5],
    "commit": {"a": 1},
    "started": 7,
    "config/agent": 5,
    "config/replay": None,
    "config/seeds": {"0": 1},
    "config/env_steps": "many",
    "config/env/kwargs": [1],
    "config/env/id": "\x1b[31m[/red]\ud800",
    "config/env/max_episode_steps": "x",
}


@pytest.mark.parametrize("name", WRONG_ENTRIES)
def test_configuration_with_a_wrong_entry(
    run: Path, tmp_path: Path, monkeypatch: Any, capfd: Any, name: str
) -> None:
    """Its hash is right: somebody made it on purpose."""
    monkeypatch.chdir(tmp_path)
    content = json.loads((run / "config.json").read_text())
    *path, last = name.split("/")
    part = content
    for key in path:
        part = part[key]
    part[last] = WRONG_ENTRIES[name]
    write_config(run, content)
    use(run, capfd)


@pytest.mark.parametrize("env_id", ["os:mkdir", "subprocess:run", "builtins:exec", "pickle:loads"])
def test_configuration_cannot_name_python_itself(run: Path, tmp_path: Path, env_id: str) -> None:
    content = json.loads((run / "config.json").read_text())
    content["config"]["env"] = {"id": env_id, "kwargs": {"path": str(tmp_path / "witness")}}
    content["config"]["env"]["max_episode_steps"] = None
    write_config(run, content)
    with pytest.raises(InputError, match="Python's own modules"):
        evaluate(run, trust_env=True)
    with pytest.raises(InputError):
        resume_all([run], env_steps=150, allow_inexact=True, trust_env=True, quiet=True)
    assert not (tmp_path / "witness").exists()


WRONG_VALUES: list[tuple[str, Any]] = [
    *[("return_mean", value) for value in ("x", [1], {}, True, 10**400, 1e999)],
    *[("wall_seconds", "x"), ("weight_by_age", 3), ("weight_by_age", ["x"])],
    *[("env_steps", 2**70), ("q_mean", [1]), ("length_mean", "\ud800")],
]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(WRONG_VALUES, id="all"),
        *(pytest.param([one], id=one[0], marks=pytest.mark.slow) for one in WRONG_VALUES),
    ],
)
def test_rows_with_a_wrong_value(
    run: Path, tmp_path: Path, monkeypatch: Any, capfd: Any, wrong: list[tuple[str, Any]]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = run / "metrics.jsonl"
    lines = []
    for name, value in wrong:
        kind = "train" if name in ("weight_by_age", "q_mean") else "eval"
        row = {"kind": kind, "seed": 0, "env_steps": 60, "return_mean": 1.0} | {name: value}
        lines.append(json.dumps(row) + "\n")
    log.write_text("".join(lines) + log.read_text())
    use(run, capfd)


@pytest.mark.parametrize(
    "line",
    [b"[" * 10**6, b"7", b"null", b'{"kind": "eval"}', b'{"kind": "eval", "seed": "x"}', b"\xff"],
)
def test_hostile_log(run: Path, line: bytes) -> None:
    """A line that is no row is left out; the others are read."""
    log = run / "metrics.jsonl"
    log.write_bytes(line + b"\n" + log.read_bytes())
    assert read_curves(run).seeds == (0,)
    assert verify_run(run)[0] != []
