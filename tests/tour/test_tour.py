"""The notebook in a fresh kernel, with the code that users have, and what its cells show."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed; `make test-tour` brings it.")

import kernels

TOUR = Path(__file__).parents[2] / "docs" / "tour.ipynb"


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, int]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("XLA_FLAGS", raising=False)
        yield kernels.execute(TOUR, tmp_path_factory.mktemp("tour"))


def outputs_of(notebook: Any, code: str) -> list[Any]:
    (cell,) = (cell for cell in notebook.cells if cell.cell_type == "code" and code in cell.source)
    return cell.outputs


def test_progress_is_one_table(tour: tuple[Any, int]) -> None:
    notebook, updates = tour
    line, table = outputs_of(notebook, "train_all")
    assert line.name == "stdout" and "memory" in line.text
    text = table.data["text/plain"]
    for method in ("sac-uniform", "sac-lfiw"):
        assert re.search(rf"{method} +3 +6,000 / 6,000 .+ 6,000 +done", text)
    assert updates > 1


def test_numbers_are_finite(tour: tuple[Any, int]) -> None:
    texts = [output.get("text", "") for output in kernels.outputs(tour[0])]
    for words, count in (("interquartile mean", 2), ("Probability", 1), ("trust", 1)):
        assert sum(text.count(words) for text in texts) == count
    assert not re.findall(r"\b(?:nan|inf)\b", " ".join(texts))
    (weights,) = (text for text in texts if "trust" in text)
    *ages, before, after, trust = map(float, re.findall(r"\d\.\d*", weights))
    assert len(ages) == 5 and 0 < before <= after <= 1 and 0 < trust <= 1


def test_both_methods_solve_the_task(tour: tuple[Any, int]) -> None:
    """As the text says. A pendulum that hangs has a return below -1000."""
    (means,) = (one.text for one in outputs_of(tour[0], "interquartile_mean, ["))
    found = re.findall(r"interquartile mean (-?[\d,]+)", means)
    assert [float(mean.replace(",", "")) > -400 for mean in found] == [True, True]


def test_tables_pictures_and_the_video(tour: tuple[Any, int]) -> None:
    notebook, _ = tour
    (table,) = outputs_of(notebook, "comparison_table(curves)")
    assert "<table>" in table.data["text/html"] and "sac-lfiw" in table.data["text/html"]
    for code in ("curves_figure(curves)", "weights_figure(weighted)"):
        (picture,) = outputs_of(notebook, code)
        assert base64.b64decode(picture.data["image/png"]).startswith(b"\x89PNG")
    (video,) = outputs_of(notebook, "lfiw.record")
    (content,) = re.findall(r"data:image/gif;base64,([^\"]+)", video.data["text/html"])
    assert base64.b64decode(content).startswith(b"GIF89a") and len(content) < 500_000


def test_nothing_went_wrong(tour: tuple[Any, int]) -> None:
    outputs = kernels.outputs(tour[0])
    assert {one.output_type for one in outputs} <= {"stream", "display_data", "execute_result"}
    assert [one.text for one in outputs if one.get("name") == "stderr"] == []


def test_the_stored_one_has_outputs_of_the_same_kinds(tour: tuple[Any, int]) -> None:
    """So it was stored after its last change: `make tour` does it."""

    def kinds(notebook: Any) -> list[Any]:
        return [(one.output_type, sorted(one.get("data", ()))) for one in kernels.outputs(notebook)]

    assert kinds(kernels.read(TOUR)) == kinds(tour[0])
