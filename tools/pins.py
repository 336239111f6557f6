"""`make constraints`: the newest versions that fit pyproject.toml, as pins of every environment.

Each is installed anew, beside the pins of those before it. A pin with a marker, which one Python
cannot find out for all others, stays as it is.
"""

from __future__ import annotations

import subprocess
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNNER = ("pytest", "pytest-xdist")
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "constraints.txt": (".[video,dev]",),
    "constraints-adapters.txt": (".[adapters]", *RUNNER),
}


def installed(wanted: tuple[str, ...], constraints: list[str]) -> list[str]:
    """What pip chooses, as lines of a constraints file."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [str(Path(folder, "bin", "python")), "-m", "pip", "--disable-pip-version-check"]
        limits = [part for name in constraints for part in ("-c", name)]
        subprocess.run([*pip, "install", "--quiet", *limits, *wanted], cwd=ROOT, check=True)
        frozen = [*pip, "freeze", "--exclude", "lfiw"]
        return subprocess.run(frozen, capture_output=True, text=True, check=True).stdout.split("\n")


def main() -> None:
    known: set[str] = set()
    for index, (name, wanted) in enumerate(ENVIRONMENTS.items()):
        path = ROOT / name
        marked = [line for line in path.read_text().splitlines() if ";" in line]
        found = installed(wanted, list(ENVIRONMENTS)[: min(index, 1)])
        pins = sorted({*found, *marked} - known - {""}, key=str.lower)
        path.write_text("".join(f"{line}\n" for line in pins))
        known |= set(pins) if index == 0 else set()
        print(f"{name}: {len(pins)} pins")


if __name__ == "__main__":
    main()
