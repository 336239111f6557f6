"""The pages of the documentation: what they name exists, and all of them can be found."""

import ast
import itertools
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import yaml
from gymnasium.utils.env_checker import check_env

import lfiw
from lfiw.agents import AGENTS
from lfiw.cli import parse_command
from lfiw.cli.train import Train
from lfiw.learning.config import check
from lfiw.replay import REPLAYS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
NAMES = {page: page.relative_to(ROOT).as_posix() for page in PAGES}
API = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of the code on a page."""
    return [(found[2], found[3]) for found in FENCE.finditer(page.read_text(encoding="utf-8"))]


def commands() -> Iterator[Any]:
    for page in PAGES:
        text = "\n".join(text for language, text in blocks(page) if language in ("", "bash"))
        for line in text.replace("\\\n", " ").splitlines():
            if re.match(r"\s*(\S*/)?lfiw [a-z-]", line):
                yield pytest.param(line.strip(), id=f"{NAMES[page]}: {line.strip()}")


@pytest.mark.parametrize("line", list(commands()))
def test_commands_are_valid(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    if "..." in line or words in (["--version"], ["--help"]) or words[1:] == ["--help"]:
        return
    words = list(itertools.takewhile(lambda word: word not in ("|", ">", "&&", "2>"), words))
    if "newest-twice" in words:  # the strategy that CONTRIBUTING.md adds
        return
    command = parse_command(words)
    if isinstance(command, Train) and command.config is None:
        for config in command.configs():
            check(config)


def test_readme_has_commands() -> None:
    readme = "\n".join(text for _, text in blocks(ROOT / "README.md"))
    used = set(re.findall(r"^lfiw (\w+)", readme, re.MULTILINE))
    assert used >= {"train", "evaluate", "plot", "record"}


@pytest.mark.parametrize("page", PAGES, ids=NAMES.get)
def test_python_can_be_parsed(page: Path) -> None:
    for language, text in blocks(page):
        if language == "python" and not text.startswith(" "):  # or a part of something
            ast.parse(text)


@pytest.mark.parametrize("page", PAGES, ids=NAMES.get)
def test_links_lead_somewhere(page: Path) -> None:
    """Within the repository, as GitHub shows it; `make docs` checks the site's."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.parent / path)) if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """GitHub's: letters, digits, - and _ of a heading, blanks as -."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_anchors_by_hand(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A & b: `c_d`?\n\n```\n# no heading\n```\n\n## 2. More\n")
    assert anchors(page) == {"a--b-c_d", "2-more"}


def nav() -> list[str]:
    class Loader(yaml.SafeLoader):
        """Takes the tags of mkdocs, such as !ENV, for nothing."""

    Loader.add_multi_constructor("", lambda loader, tag, node: None)
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)
    assert config["strict"] is True

    def leaves(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
            return
        for own in entry.values() if isinstance(entry, dict) else entry:
            yield from leaves(own)

    return list(leaves(config["nav"]))


def test_every_page_is_in_the_nav_once() -> None:
    entries = nav()
    assert len(set(entries)) == len(entries)
    outside = {name for name in entries if not (DOCS / name).is_file()}
    assert all((ROOT / name).is_file() for name in outside)
    found = [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]
    pages = {path.relative_to(DOCS).as_posix() for path in found}
    assert pages == set(entries) - outside


@pytest.mark.parametrize("name", sorted(set(lfiw.__all__) - {"__version__"}))
def test_api_has_every_public_name(name: str) -> None:
    assert f"::: {lfiw._HOMES[name]}.{name}\n    options: {{heading: lfiw.{name}" in API
    assert getattr(lfiw, name).__doc__


@pytest.mark.parametrize("kind", [*AGENTS.values(), *REPLAYS.values()], ids=lambda k: k.name)
def test_api_has_every_config(kind: type[Any]) -> None:
    assert f"::: {kind.__module__}.{kind.__qualname__}\n" in API
    assert kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}(")


def test_api_names_exist() -> None:
    """Those whose libraries are here; the others are found by `make docs`."""
    found = re.findall(r"^::: (lfiw\.(?!adapters)\S+)\.(\w+)$", API, re.MULTILINE)
    assert found
    for module, name in found:
        assert hasattr(__import__(module, fromlist=[name]), name)


def test_headline_is_that_of_the_results() -> None:
    """Every interval on the first page stands in the README, too."""
    interval = r"\d\.\d+ \(\d\.\d+ to \d\.\d+\)"
    first = re.findall(interval, (DOCS / "index.md").read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(first) == 6
    assert all(text in readme for text in first)


@pytest.mark.filterwarnings("ignore:.*Box observation space")
def test_example_of_an_environment() -> None:
    texts = [
        text for _, text in blocks(DOCS / "guides/own-environment.md") if "class Point" in text
    ]
    names: dict[str, Any] = {}
    exec(texts[0], names)
    env = names["make_point"](step_size=0.1)
    check_env(env.unwrapped, skip_render_check=True)
    obs, _ = env.reset(seed=0)
    toward_origin = -obs / 0.1
    obs, reward, terminated, truncated, _ = env.step(toward_origin)
    # The step is 0.1 times the action, which takes the point to the origin, where it costs nothing.
    assert abs(obs).max() < 1e-6 and abs(reward) < 1e-6
    assert not terminated and not truncated
    assert isinstance(env, gymnasium.wrappers.TimeLimit)
