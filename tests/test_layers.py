"""Arrows go one way: device code knows no environment and no file; what reads run folders
and what steps environments knows no jax; nothing in the core knows an adapter."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lfiw

PACKAGE = Path(lfiw.__file__).parent

# Modules and packages below lfiw, each with all that is below it.
DEVICE = ("agents", "replay", "networks", "ratio", "divergences", "learner")
HOST = (
    "bench.peer_scripts.job",
    "checkpoint",
    "collector",
    "config_file",
    "curves",
    "env_config",
    "envpool_backend",
    "episodes",
    "envs",
    "errors",
    "evaluate",
    "extras",
    "faults",
    "files",
    "host",
    "layout",
    "markdown",
    "paper.snapshots",
    "paper.table1",
    "plot",
    "policy",
    "progress",
    "recovery",
    "report",
    "results",
    "results_page",
    "results_store",
    "rollout",
    "rollout_host",
    "rows",
    "runlog",
    "segments",
    "settings",
    "statistics",
    "tensorboard",
    "types",
    "verify",
    "worker",
)
# What touches files, processes or environments, of ours and of others.
FORBIDDEN_ON_THE_DEVICE = {
    *("gymnasium", "safetensors", "tensorboardX", "matplotlib", "rich", "tyro", "multiprocessing"),
    *("pathlib", "os", "io", "json", "shutil", "subprocess", "tempfile", "threading", "socket"),
    *(f"lfiw.{name}" for name in HOST if name not in ("env_config", "errors", "settings", "types")),
    *("lfiw.cli", "lfiw.demo", "lfiw.training", "lfiw.trainer", "lfiw.group", "lfiw.paper"),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(module: str, runtime_only: bool = False) -> set[str]:
    """Full names that a module imports, without those for type checkers alone."""
    tree = ast.parse(SOURCES[module].read_text(encoding="utf-8"))
    skipped = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if runtime_only and node in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            assert node.module is not None
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {node.module} | (names & SOURCES.keys())
    return found


def is_below(name: str, parent: str) -> bool:
    return name == parent or name.startswith(f"{parent}.")


def modules_of(names: tuple[str, ...]) -> list[str]:
    return [module for module in SOURCES if any(is_below(module, f"lfiw.{name}") for name in names)]


def run_python(code: str) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lists_are_complete() -> None:
    for name in (*DEVICE, *HOST):
        assert f"lfiw.{name}" in SOURCES
    promised = {
        module for module, path in SOURCES.items() if "No jax here" in path.read_text("utf-8")
    }
    assert promised <= set(modules_of(HOST))


def reachable(module: str) -> set[str]:
    """All that a module imports, also through other modules of ours and within functions."""
    reached, todo = set(), {module}
    while todo:
        name = todo.pop()
        reached.add(name)
        todo |= (imports(name, runtime_only=True) if name in SOURCES else set()) - reached
    return reached


def among(names: set[str], forbidden: set[str]) -> set[str]:
    return {name for name in names if any(is_below(name, parent) for parent in forbidden)}


@pytest.mark.parametrize("module", modules_of(DEVICE))
def test_device_code_knows_no_environment_and_no_file(module: str) -> None:
    assert among(imports(module), FORBIDDEN_ON_THE_DEVICE) == set()


@pytest.mark.parametrize("module", modules_of(DEVICE))
def test_device_code_reaches_no_environment(module: str) -> None:
    assert among(reachable(module), {"gymnasium", "multiprocessing", "safetensors"}) == set()


@pytest.mark.parametrize("module", modules_of(DEVICE))
def test_device_code_opens_no_file(module: str) -> None:
    tree = ast.parse(SOURCES[module].read_text(encoding="utf-8"))
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert called & {"open", "print", "input", "eval", "exec"} == set()


@pytest.mark.parametrize("module", modules_of(HOST))
def test_host_code_knows_no_jax(module: str) -> None:
    assert among(reachable(module), {"jax", "jaxlib", "optax"}) == set()


def test_host_code_imports_no_jax_at_run_time() -> None:
    """One process per module would take long; the set grows in a fixed order instead."""
    names = [f"lfiw.{name}" for name in HOST]
    out = run_python(
        f"import importlib, sys\n"
        f"for name in {names}:\n"
        f"    importlib.import_module(name)\n"
        f"    print(name, 'jax' in sys.modules)\n"
    )
    assert out.splitlines() == [f"{name} False" for name in names]


def test_command_line_starts_without_jax() -> None:
    assert run_python("import sys, lfiw.cli; print('jax' in sys.modules)").strip() == "False"


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


def test_nothing_in_the_core_imports_adapters() -> None:
    wrong = {
        module
        for module in SOURCES
        if not is_below(module, "lfiw.adapters")
        for name in imports(module)
        if is_below(name, "lfiw.adapters")
    }
    assert wrong == set()


def test_core_needs_no_other_library_of_the_field() -> None:
    field = {"torch", "tensorflow", "stable_baselines3", "tianshou", "torchrl", "sbx", "flax"}
    for module in SOURCES:
        if not is_below(module, "lfiw.adapters") and module != "lfiw.torch":
            names = imports(module)
            assert {name.partition(".")[0] for name in names} & field == set()
            assert "lfiw.torch" not in names


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


def test_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        lfiw.trian  # noqa: B018
