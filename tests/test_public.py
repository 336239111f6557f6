"""What `import lfiw` offers, and how little it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

import lfiw


def run_python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_policy_loads_with_numpy_alone(tmp_path: Path) -> None:
    out = run_python(
        f"""
import sys
import numpy as np
import lfiw
from safetensors.numpy import save_file
from pathlib import Path
folder = Path({str(tmp_path)!r})
(folder / "policies").mkdir()
arrays = {{
    "deterministic.0.weight": np.zeros((2, 1), np.float32),
    "deterministic.0.bias": np.zeros(1, np.float32),
    "action_low": np.float32([0]),
    "action_high": np.float32([4]),
}}
save_file(arrays, folder / "policies" / "seed-0.safetensors")
print(lfiw.load_policy(folder).predict([1.0, 2.0])[0])
print(*(name in sys.modules for name in ("jax", "gymnasium", "matplotlib", "tensorboardX")))
"""
    )
    assert out.splitlines() == ["[2.]", "False False False False"]


def test_public_names_are_stable() -> None:
    """No module hides a public name, whatever was imported before."""
    out = run_python(
        """
import importlib, pkgutil, types
import lfiw
def hidden():
    return [name for name in lfiw.__all__ if isinstance(getattr(lfiw, name), types.ModuleType)]
print(hidden(), hidden())
for module in pkgutil.iter_modules(lfiw.__path__):
    if module.name != "torch":  # needs an optional library
        importlib.import_module(f"lfiw.{module.name}")
print(hidden())
"""
    )
    assert out.splitlines() == ["[] []", "[]"]


def test_public_names_are_listed_before_they_are_imported() -> None:
    """So that interactive sessions complete them."""
    assert run_python("import lfiw; print(dir(lfiw) == sorted(lfiw.__all__))").strip() == "True"


def test_missing_dependency_is_named_with_its_command() -> None:
    out = run_python(
        """
import sys
sys.modules["jax"] = None  # as if it were not installed
import lfiw
try:
    lfiw.train
except ModuleNotFoundError as error:
    print(error)
"""
    )
    assert out.startswith("lfiw.train needs jax: ")
    assert " install " in out


def test_policies_are_looked_for_in_folders_that_exist(tmp_path: Path) -> None:
    with pytest.raises(lfiw.InputError, match=r"nowhere does not exist\.$"):
        lfiw.load_policy(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(lfiw.InputError, match="file is a file; a method folder is needed"):
        lfiw.load_policy(tmp_path / "file")
    with pytest.raises(lfiw.InputError, match="has no policies/: it is no method folder"):
        lfiw.load_policy(tmp_path)


def test_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        lfiw.trian  # noqa: B018
