"""A policy acts where numpy and safetensors are all that is installed."""

import importlib.util
import json
import subprocess
import venv
from pathlib import Path

import numpy as np
import pytest

import lfiw
from lfiw.runs.files import save_arrays
from lfiw.runs.layout import policy_file

PACKAGES = ("lfiw", "numpy", "safetensors")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a virtual environment with these packages alone, linked from where the tests find them:
    what `pip install numpy safetensors` and `pip install --no-deps .` leave, without a network."""
    folder = tmp_path_factory.mktemp("deployed")
    venv.create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        package = Path(spec.origin).parent
        (site / name).symlink_to(package)
        libraries = package.with_name(f"{name}.libs")  # which the package finds beside itself
        if libraries.is_dir():
            (site / libraries.name).symlink_to(libraries)
    return folder / "bin" / "python"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Policies of one product: an action is twice the tanh of a multiple of the observation."""
    for which, factor in (("latest", 0.5), ("best", 0.25)):
        arrays = {
            "gaussian.0.weight": np.array([[factor, 0.0]], np.float32),
            "gaussian.0.bias": np.zeros(2, np.float32),
            "action_low": np.float32([-2]),
            "action_high": np.float32([2]),
        }
        save_arrays(policy_file(tmp_path, 3, which), arrays)
    return tmp_path


def run(python: Path, program: str) -> str:
    # -I: neither this folder nor PYTHONPATH.
    done = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_else_is_there(python: Path) -> None:
    program = """
import importlib.util, json
names = ("jax", "mujoco", "gymnasium", "matplotlib", "scipy", "rich", "tyro", "optax", "pip")
print(json.dumps([name for name in names if importlib.util.find_spec(name)]))
"""
    assert json.loads(run(python, program)) == []


def test_a_policy_loads_and_acts(python: Path, folder: Path) -> None:
    """As it does here, one observation or several, latest and best."""
    program = f"""
import json
import lfiw
found = []
for which in ("latest", "best"):
    policy = lfiw.load_policy({str(folder)!r}, seed=3, which=which)
    found.append(policy.predict([1.0])[0].tolist())
    found.append(policy.predict([[1.0], [-1.0]])[0].tolist())
    policy.predict([1.0], deterministic=False)
print(json.dumps(found))
"""
    one, several, best, _ = json.loads(run(python, program))
    assert one == pytest.approx([2 * np.tanh(0.5)], rel=1e-5)  # bounds are -2 and 2
    assert several == [one, [-one[0]]]
    assert best == pytest.approx([2 * np.tanh(0.25)], rel=1e-5)
    here = lfiw.load_policy(folder, seed=3).predict([1.0])[0]
    np.testing.assert_allclose(here, one, rtol=1e-6)


def test_a_missing_policy_is_a_sentence_there_too(python: Path, folder: Path) -> None:
    program = f"""
import lfiw
try:
    lfiw.load_policy({str(folder)!r}, seed=4)
except lfiw.InputError as error:
    print(error)
"""
    assert "holds no policy of seed 4" in run(python, program)


def test_the_command_says_what_it_needs(python: Path) -> None:
    done = subprocess.run([python, "-I", "-m", "lfiw", "settings"], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "lfiw: the command needs" in done.stderr and "pip install" in done.stderr


def test_what_needs_more_says_so(python: Path) -> None:
    program = """
import lfiw
for name in ("train", "resume", "evaluate"):
    try:
        getattr(lfiw, name)
    except ImportError as error:
        print(error)
"""
    lines = run(python, program).splitlines()
    assert len(lines) == 3 and all("pip install" in line for line in lines)
