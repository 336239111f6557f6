import io
import json
from pathlib import Path

from rich.console import Console

from lfiw.bench.result import BenchResult, readable


def test_json_format(tmp_path: Path) -> None:
    rows = [{"agent": "sac", "seconds": 0.5, "ratio": None}]
    path = tmp_path / "new" / "rows.json"
    BenchResult("A title", rows, ("a note",)).write(path)
    content = json.loads(path.read_text())
    assert content["rows"] == rows
    assert content["title"] == "A title"
    assert content["notes"] == ["a note"]
    assert {"python", "lfiw", "jax", "numpy"} <= content["versions"].keys()
    assert {"platform", "device", "cpu", "cores"} <= content["hardware"].keys()


def test_table_shows_every_row_and_note() -> None:
    text = io.StringIO()
    rows = [{"agent": "sac", "rate": 1234.5}, {"agent": "td3", "rate": None, "note": "no ratio"}]
    BenchResult("A title", rows, ("a note",)).show(Console(file=text, width=100))
    for word in ("A title", "a note", "sac", "1,234", "td3", "no ratio"):
        assert word in text.getvalue()


def test_readable() -> None:
    values = [None, 1234.4, 1.23456, 1_000_000, True, "text"]
    assert list(map(readable, values)) == ["-", "1,234", "1.23", "1,000,000", "True", "text"]
