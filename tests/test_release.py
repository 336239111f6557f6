"""What is published beside the code says the same as the code."""

import re
from pathlib import Path

import pytest
import yaml

import lfiw
from lfiw.replay import REPLAYS

ROOT = Path(__file__).parents[1]
CHANGES = (ROOT / "CHANGELOG.md").read_text()


def read_yaml(path: str) -> dict:
    return yaml.safe_load((ROOT / path).read_text())


def test_the_version_is_the_same_everywhere() -> None:
    assert read_yaml("CITATION.cff")["version"] == lfiw.__version__
    assert f"## [{lfiw.__version__}]" in CHANGES


def test_the_paper_is_cited_as_in_the_readme() -> None:
    paper = read_yaml("CITATION.cff")["preferred-citation"]
    names = " and ".join(
        f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]
    )
    readme = (ROOT / "README.md").read_text()
    assert f"{{{names}}}" in readme and f"{{{paper['title']}}}" in readme
    assert f"{{{paper['start']}--{paper['end']}}}" in readme


def test_changes_are_headed_by_versions_newest_first() -> None:
    heads = re.findall(r"^## \[(.+)\]", CHANGES, re.MULTILINE)
    versions = [tuple(map(int, head.split("."))) for head in heads if head != "Unreleased"]
    assert heads[0] in ("Unreleased", lfiw.__version__)
    assert versions == sorted(versions, reverse=True)
    kinds = set(re.findall(r"^### (.+)$", CHANGES, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_every_python_that_is_promised_is_tested() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    first = re.search(r'requires-python = ">=(.+)"', text)[1]
    matrix = read_yaml(".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"][0] == first


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/workflows/*.yml")), ids=lambda p: p.stem)
def test_workflows_call_what_the_makefile_has(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"run: make (\S+)", path.read_text())
    assert targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


@pytest.mark.parametrize("page", ["docs/strategies.md", "docs/usage.md", "README.md"])
def test_pages_name_every_strategy(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [name for name in REPLAYS if f"`{name}`" not in text] == []
