"""What all tests share."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def compiled_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache of compiled programs for all processes of a session of tests, not the user's."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield
