"""What the fake tracker in `fake_trackers` was told."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).parent / "fake_trackers"
NAME = "trackio"  # the library that it stands for


@dataclass(frozen=True)
class FakeTracker:
    folder: Path

    def told(self, call: str) -> list[dict[str, Any]]:
        path = self.folder / "told.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("\n")]
        return [entry for entry in entries if entry["call"] == call]

    def curve(self, tag: str, seed: int = 0) -> list[tuple[int, float]]:
        """Of the run of a seed: environment steps and values, in the order in which they came."""
        return [
            (entry["step"], entry["metrics"][tag])
            for entry in self.told("log")
            if f"/seed-{seed}-" in entry["run"] and tag in entry["metrics"]
        ]

    def mend(self) -> None:
        (self.folder / "mended").touch()
