"""The arrows of docs/architecture.md: which room may import which, and which know no jax."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lfiw
from lfiw.tracking import TRACKERS

PACKAGE = Path(lfiw.__file__).parent
GROUND = {
    "types",
    "settings",
    "errors",
    "extras",
    "env_config",
    "import_path",
    "plain_files",
    "machine",
    "wording",
    "registry",
    "older",
    "torch",
}
DEVICE = ("networks", "ratio", "agents", "replay", "learning")
HOST = ("acting", "runs", "results", "report", "tracking")
# Each room, and the rooms that it may import beside the ground and itself.
ARROWS: dict[str, set[str]] = {
    "ground": set(),
    "networks": set(),
    "ratio": {"networks"},
    "agents": {"networks"},
    "replay": {"networks", "ratio"},
    "learning": {"networks", "agents", "replay"},
    "acting": set(),
    "runs": {"acting"},
    "results": {"runs"},
    "report": {"runs", "results"},
    "tracking": {"runs"},
    "training": {"learning", "agents", "replay", "acting", "runs", "tracking"},
    "cluster": {"learning", "acting", "runs", "training", "tracking"},
    "bench": {*DEVICE, "acting", "runs", "training"},
    "paper": {*DEVICE, *HOST, "training", "cluster", "bench"},
    "tuning": {*DEVICE, *HOST, "training"},
    "exporting": {"acting", "runs", "results"},
    "adapters": {"ratio", "replay"},
    "cli": {
        *DEVICE,
        *HOST,
        *("training", "tracking", "cluster", "bench", "paper", "tuning", "exporting"),
    },
}
TRACKER_FILES = {place.partition(":")[0]: name for name, place in TRACKERS.items()}
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
)


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ARROWS else "ground"


def imported_names(module: str) -> set[str]:
    """What a module imports, also inside functions, but not for types alone."""
    path = PACKAGE.parent / Path(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in skipped:
            found |= {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import) and id(node) not in skipped:
            found |= {name.name for name in node.names}
    return found


@pytest.mark.parametrize("room", ARROWS)
def test_arrows(room: str) -> None:
    modules = [module for module in MODULES if room_of(module) == room]
    assert modules or room == "ground"
    allowed = {"ground", room, *ARROWS[room]}
    for module in modules:
        # The doors, which open when used, and the short name of an adapter.
        if module in ("lfiw", "lfiw.__main__", "lfiw.torch"):
            continue
        for imported in imported_names(module):
            ours = imported.startswith("lfiw.")
            assert not ours or room_of(imported) in allowed, f"{module} imports {imported}"


def test_every_folder_is_a_room() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders == ARROWS.keys() - {"ground"}
    files = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert files <= GROUND


def test_the_host_knows_no_jax() -> None:
    """Nor does the ground, and `lfiw` starts without it."""
    optional = {"lfiw.torch", *TRACKER_FILES}
    modules = [m for m in MODULES if room_of(m) in (*HOST, "ground") and m not in optional]
    program = f"""
import importlib, sys
for module in {[*modules, "lfiw.cli"]!r}:
    if module != "lfiw.__main__":
        importlib.import_module(module)
        assert "jax" not in sys.modules, module
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_command_starts_light() -> None:
    program = "import sys, lfiw.cli; assert not {'jax', 'numpy', 'gymnasium'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_only_the_cluster_room_imports_ray() -> None:
    for module in MODULES:
        if room_of(module) != "cluster":
            assert not {name for name in imported_names(module) if name.split(".")[0] == "ray"}


def test_only_the_file_of_a_tracker_imports_its_library() -> None:
    for module in MODULES:
        trackers = {name.partition(".")[0] for name in imported_names(module)} & TRACKERS.keys()
        assert trackers <= {TRACKER_FILES.get(module)}, module


def test_the_core_needs_no_other_library_of_the_field() -> None:
    field = {"torch", "tensorflow", "stable_baselines3", "tianshou", "torchrl", "sbx", "flax"}
    for module in MODULES:
        if room_of(module) not in ("adapters", "exporting"):
            assert not {name.partition(".")[0] for name in imported_names(module)} & field, module
