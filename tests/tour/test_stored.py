"""The notebook as it is stored: what a reader sees who does not execute it."""

import json
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TOUR = DOCS / "tour.ipynb"
CELLS = json.loads(TOUR.read_text(encoding="utf-8"))["cells"]
TEXT = "\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]
OUTPUTS = [output for cell in CODE for output in cell["outputs"]]


def test_it_was_executed_from_top_to_bottom() -> None:
    assert [cell["execution_count"] for cell in CODE] == [*range(1, len(CODE) + 1)]
    assert {name for output in OUTPUTS for name in output.get("data", ())} >= {
        "image/png",
        "text/html",
    }


def test_it_is_small() -> None:
    assert TOUR.stat().st_size < 1_000_000


def test_it_says_nothing_of_the_machine_and_nothing_went_wrong() -> None:
    streams = {output["name"] for output in OUTPUTS if output["output_type"] == "stream"}
    assert streams == {"stdout"}  # warnings would be on the other
    shown = re.sub(r'base64,[^"]+', "", json.dumps(OUTPUTS))
    shown = re.sub(r'"image/png": "[^"]+"', "", shown)
    assert not re.findall(r"/(?:home|root|tmp|Users|work|usr|opt|mnt|var)/", shown)
    assert not re.findall(r"\b(?:nan|inf|None|Warning|Traceback)\b", shown)


def test_its_links_are_pages_beside_it() -> None:
    links = re.findall(r"\]\((.+?)\)", TEXT)
    assert len(links) > 5
    assert [link for link in links if not (DOCS / link.partition("#")[0]).is_file()] == []
