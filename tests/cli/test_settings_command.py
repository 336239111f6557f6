"""What each setting means: said once, and shown by `lfiw settings` and docs/settings.md alike."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lfiw.agents import AGENTS
from lfiw.cli.inspect import Settings
from lfiw.learning.config import make_config
from lfiw.learning.scalars import traced_settings
from lfiw.replay import REPLAYS
from lfiw.settings import parts, walk

SETTINGS = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")


def settings(agent: str, replay: str) -> dict[str, str]:
    """What the settings of a method mean."""
    config = make_config("ENV", agent, replay)
    found = {name: entry.metadata.get("meaning", "") for name, entry, _ in walk(config)}
    return found | {name: meaning for name, _, _, meaning in parts(config)}


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("replay", REPLAYS)
def test_every_setting_says_what_it_means(agent: str, replay: str) -> None:
    for name, meaning in settings(agent, replay).items():
        assert meaning and not meaning.endswith("."), name


@pytest.mark.parametrize("width", [80, 120])
def test_table_is_whole_at_usual_widths(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    Settings().run(console)
    text = console.export_text()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    words = text.split()
    for name, meaning in settings("sac", "lfiw").items():
        if name in ("agent", "replay"):
            continue
        assert name in words
        for word in meaning.split():
            assert word in words


def test_narrow_table_indents_every_line_of_a_meaning() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    Settings().run(console)
    lines = console.export_text().splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith(" env.kwargs ")]
    assert all(line.startswith("   ") for line in lines[at + 1 : at + 3])


def text_of(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return "" if value in ("ENV", {}) else str(value)


def rows(prefix: str, agent: str, replay: str) -> list[str]:
    """The rows of the manual's table for the settings below a prefix, or for the general ones."""
    config, paper = (make_config("ENV", agent, replay, preset) for preset in ("default", "paper"))
    of_paper = {name: value for name, _, value in walk(paper)}
    found = []
    chosen = [(name, kind, meaning, "") for name, kind, _, meaning in parts(config)]
    given = [
        (name, text_of(value), entry.metadata["meaning"], text_of(of_paper[name]))
        for name, entry, value in walk(config)
    ]
    for name, value, meaning, other in [*given, *chosen]:
        if prefix and not name.startswith(prefix):
            continue
        if not prefix and name.startswith(("agent", "replay")):
            continue
        traced = "yes" if name in traced_settings(config) else ""
        paper_value = other if other != value and other else ""
        cells = (f"`{name}`", value, paper_value, traced, meaning)
        found.append(f"| {' | '.join(cells)} |".replace("  ", " "))
    return found


@pytest.mark.parametrize(
    ("prefix", "agent", "replay"),
    [
        ("", "sac", "uniform"),
        ("agent.", "sac", "uniform"),
        ("agent.", "td3", "uniform"),
        ("agent.", "xqc", "uniform"),
        ("agent.", "flashsac", "uniform"),
        ("replay.", "sac", "per"),
        ("replay.", "sac", "ere"),
        ("replay.", "sac", "recency"),
        ("replay.", "sac", "inverse-age"),
        ("replay.", "sac", "lap"),
        ("replay.", "sac", "pal"),
        ("replay.", "sac", "faded-per"),
        ("replay.", "sac", "lfiw"),
    ],
)
def test_manual_says_the_same(prefix: str, agent: str, replay: str) -> None:
    """A row that differs is printed as it should be, to be pasted there."""
    missing = [row for row in rows(prefix, agent, replay) if row not in SETTINGS]
    assert not missing, "\n" + "\n".join(missing)
