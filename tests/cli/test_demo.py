"""`lfiw demo`, with a training that is cut short: one page has all that it made."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from lfiw.cli import demo, main
from lfiw.learning.config import check

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shown(tmp_path_factory: Any) -> tuple[Path, str]:
    """The folder, and what was printed."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "DEMO_ENV_STEPS", 2500)  # past the warm-up
        capture = folder.with_suffix(".txt")
        with capture.open("w") as output:
            patch.setattr("sys.stdout", output)
            with pytest.raises(SystemExit) as ended:
                main(["demo", "--out", str(folder)])
        assert ended.value.code == 0
    return folder, capture.read_text()


def test_the_last_line_names_the_page(shown: tuple[Path, str]) -> None:
    folder, printed = shown
    page = folder / "report" / "index.html"
    assert printed.splitlines()[-1] == f"Everything on one page: {page}"
    assert page.is_file()


def test_the_floor_takes_the_fewest_epochs_in_every_row(shown: tuple[Path, str]) -> None:
    """As the text beside the table says; the first row by `tests/paper/test_chain.py` too."""
    folder, printed = shown
    page = (folder / "report" / "index.html").read_text()
    rows = re.findall(r"discount (0\.\d+), (error 1|1% of the start) (.+)", printed)
    epochs = {
        (d, goal): [int(n.replace(",", "")) for n in counts.split()] for d, goal, counts in rows
    }
    assert len(epochs) == 6
    assert epochs["0.9", "error 1"] == [194, 167, 121, 112]
    assert epochs["0.98", "error 1"][2] > epochs["0.98", "error 1"][0]  # without a floor: last
    for counts in epochs.values():
        assert min(counts) == counts[3] < min(counts[:3])
    marked = re.findall(r"<strong>([\d,]+)</strong><span class=\"best\"", page)
    assert {int(n.replace(",", "")) for n in marked} >= {counts[3] for counts in epochs.values()}


def test_the_page_holds_the_picture_and_both_methods(shown: tuple[Path, str]) -> None:
    folder, _ = shown
    page = (folder / "report" / "index.html").read_text()
    (picture,) = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert base64.b64decode(picture) == (folder / "chain.png").read_bytes()
    headings = re.findall("<h2>(.+?)</h2>", page)
    assert [heading.split(":")[0] for heading in headings[:3]] == [
        "Why a floor",
        "That all works",
        "At a glance",
    ]
    assert "{{" not in page
    for method in ("sac-uniform", "sac-lfiw"):
        assert f"<code>{method}</code>" in page
        assert (folder / "Pendulum-v1" / method / "config.json").is_file()


def test_what_is_there_stays(tmp_path: Path, capsys: Any) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    for out in (tmp_path, kept):
        with pytest.raises(SystemExit) as ended:
            main(["demo", "--out", str(out)])
        assert ended.value.code == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "already holds something: choose another --out." in shown.err
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_weights_begin_within_the_demo() -> None:
    for config in demo.demo_configs():
        check(config)
        warmup = getattr(config.replay, "warmup_env_steps", 0)
        assert warmup <= config.env_steps / 5
