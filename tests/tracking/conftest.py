"""A tracker by hand, for the processes that tests start too."""

import os
from pathlib import Path

import pytest
from fake_tracker import PACKAGES, FakeTracker


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTracker:
    folder = tmp_path / "tracker"
    folder.mkdir()
    monkeypatch.setenv("FAKE_TRACKER", str(folder))
    monkeypatch.syspath_prepend(str(PACKAGES))  # before the real library, if that is there
    path = [str(PACKAGES), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    return FakeTracker(folder)
