"""Install commands: what they name, for which Python, and where nothing is known."""

import shlex
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from lfiw.extras import install_command, pip

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"].keys() - {"adapters"}))
def test_an_extra_is_named_by_its_requirements(extra: str) -> None:
    """The package is on no index, so that its own name would install nothing."""
    _, _, wanted = install_command(extra).partition(" install ")
    stated = PROJECT["optional-dependencies"][extra]
    assert list(map(Requirement, shlex.split(wanted))) == list(map(Requirement, stated))


def test_of_the_package_itself_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    known = metadata.version

    def version(name: str) -> str:
        if name in ("jax", "gymnasium"):
            raise metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(metadata, "version", version)
    _, _, wanted = install_command().partition(" install ")
    assert [entry.split(">")[0] for entry in shlex.split(wanted)] == ["jax", "gymnasium[mujoco]"]


def test_a_checkout_that_is_not_installed_is_named_by_its_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    folder = shlex.split(install_command("video"))[-1].removesuffix("[video]")
    assert (Path(folder) / "pyproject.toml").is_file()


def test_pip_is_that_of_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = Path(sys.executable).parent
    monkeypatch.setenv("PATH", str(own))
    assert pip() == ("pip" if (own / "pip").exists() else f"{sys.executable} -m pip")
    (tmp_path / "pip").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pip() == f"{sys.executable} -m pip"
