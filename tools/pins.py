"""`make constraints`: the newest versions that fit pyproject.toml, as pins of every environment.

Each is installed anew. A pin with a marker, which one Python cannot find out for all others, stays
as it is.
"""

from __future__ import annotations

import subprocess
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNNER = ("pytest", "pytest-xdist")
ENVIRONMENTS = {
    "constraints.txt": (".[video,dev]",),
    "constraints-adapters.txt": (".[adapters]", *RUNNER),
    "constraints-tracking.txt": (".[video,wandb,trackio,mlflow]", *RUNNER),
    "constraints-docs.txt": (".[video,docs]", *RUNNER),
}


def newest(wanted: tuple[str, ...]) -> list[str]:
    """What pip chooses, as lines of a constraints file."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [str(Path(folder, "bin", "python")), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", *wanted], cwd=ROOT, check=True)
        frozen = [*pip, "freeze", "--exclude", "lfiw"]
        done = subprocess.run(frozen, capture_output=True, text=True, check=True)
        # A build of one machine, such as 2.13.0+cpu, is another one elsewhere.
        return [line.partition("+")[0] for line in done.stdout.splitlines()]


def main() -> None:
    for name, wanted in ENVIRONMENTS.items():
        path = ROOT / name
        marked = [line for line in path.read_text().splitlines() if ";" in line]
        pins = sorted({*newest(wanted), *marked}, key=str.lower)
        path.write_text("".join(f"{line}\n" for line in pins))
        print(f"{name}: {len(pins)} pins")


if __name__ == "__main__":
    main()
