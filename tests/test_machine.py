from pathlib import Path

import pytest

from lfiw.machine import CGROUPS, available_memory
from lfiw.wording import size_text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0.0 MB"),
        (1.26e6, "1.3 MB"),
        (99.9e6, "99.9 MB"),
        (100e6, "0.10 GB"),
        (14e9, "14.00 GB"),
    ],
)
def test_sizes_are_told_in_a_unit_that_shows_them(num_bytes: float, text: str) -> None:
    assert size_text(num_bytes) == text


def test_cached_files_count_as_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a limit of 1000, 700 are used, but 400 of them hold files that give way."""
    for name, content in {
        "memory.max": "1000\n",
        "memory.current": "700\n",
        "memory.stat": "anon 300\ninactive_file 400\n",
    }.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setattr("lfiw.machine.CGROUPS", ((tmp_path, *CGROUPS[0][1:]),))
    assert available_memory() == 700
    (tmp_path / "memory.stat").unlink()
    assert available_memory() == 300  # the limit holds all the same
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory() > 1000
