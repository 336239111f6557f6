"""Optional libraries: nobody pays for those that are not used, and a missing one is named."""

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from lfiw.adapters.versions import EXTRAS, require
from lfiw.errors import InputError

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_missing_library_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    sentence = r'^lfiw.adapters.sb3 needs stable-baselines3: .* install "stable-baselines3<2.10'
    with pytest.raises(ImportError, match=sentence):
        require("lfiw.adapters.sb3", "stable-baselines3")


@pytest.mark.parametrize("version", ["2.9.0", "2.9.7", "2.9.0a1"])
def test_tested_versions_are_taken(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    require("lfiw.adapters.sb3", "stable-baselines3")


@pytest.mark.parametrize("version", ["2.8.9", "2.10rc1", "2.10.0", "3.0", "1.9"])
def test_other_versions_get_the_tested_range(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    with pytest.raises(InputError, match=rf">=2\.9,<2\.10 and does not take {version}"):
        require("lfiw.adapters.sb3", "stable-baselines3")


def test_extras_install_the_tested_versions() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    for distribution, extra in EXTRAS.items():
        wanted = f">={extra.first},<{extra.end}" if extra.end else ""
        assert any(entry.startswith(distribution + wanted) for entry in extras[extra.name]), (
            distribution
        )


def test_core_imports_none_of_them() -> None:
    """Also where they are installed. (tensorboardX, which a training loads, takes torch along.)"""
    code = """
import sys
import lfiw, lfiw.adapters, lfiw.cli
lfiw.LfiwConfig(), lfiw.make_config("Hopper-v5")
print(sorted({"torch", "stable_baselines3", "torchrl", "tianshou", "sbx"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
