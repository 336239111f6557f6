"""What all tests share."""

import os
from collections.abc import Iterator

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Code that is compiled quickly, where tests would wait for the compiler most of the time; the
    slow ones train for so long that a little optimisation pays. `make test-faults` has the
    optimised code that users have; so has `XLA_FLAGS= pytest`."""
    chosen = config.option.markexpr
    if chosen != "faults":
        level = 0 if "not slow" in chosen else 1
        os.environ.setdefault("XLA_FLAGS", f"--xla_backend_optimization_level={level}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no process is left alone with one of them at the end."""
    items.sort(key=lambda item: item.path.parent.name not in ("training", "cluster"))


@pytest.fixture(scope="session", autouse=True)
def compiled_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache of compiled programs and one key for all processes of a session of tests, not the
    user's."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))  # with a key of the tests' own
        yield
