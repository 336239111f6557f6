"""What every benchmark returns: rows, printed as a table and written as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lfiw.machine import versions
from lfiw.training.devices import hardware


@dataclass(frozen=True)
class BenchResult:
    title: str
    rows: list[dict[str, Any]]
    notes: tuple[str, ...] = ()

    def show(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left")
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        for name in columns:
            numeric = any(isinstance(row.get(name), int | float) for row in self.rows)
            heading = name.replace("_", " ")
            table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*(readable(row.get(name)) for name in columns))
        console.print(table)
        for note in self.notes:
            console.print(note, soft_wrap=True, highlight=False)

    def write(self, path: Path) -> None:
        import jax

        content = {
            "versions": versions(),
            "hardware": hardware(jax.devices()),
            "title": self.title,
            "notes": list(self.notes),
            "rows": self.rows,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def readable(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
