"""The tables of a store's README.md, and the commands that keep it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lfiw.errors import InputError
from lfiw.results.curves import Curves
from lfiw.results.methods import Method, read_methods
from lfiw.results.table import markdown_table
from lfiw.results.table1 import paper_form
from lfiw.runs.files import write_whole
from lfiw.wording import duration

BEGIN = "<!-- The tables below are rebuilt by `lfiw results add`. -->"
END = "<!-- End of the tables. -->"


def curves_by_cell(methods: Sequence[Method]) -> dict[tuple[str, str], Curves]:
    return {(method.task, method.name): method.curves for method in methods}


def provenance_table(methods: Sequence[Method]) -> str:
    rows = []
    for method in methods:
        curves, record = method.curves, method.record
        hardware, versions = method.hardware, method.versions
        wall = method.wall_seconds
        rows.append(
            [
                *(method.task, method.name, f"{curves.env_steps[-1]:,}"),
                ", ".join(map(str, curves.seeds)),
                f"{hardware.get('device', '')}, {hardware.get('cores', '?')} cores",
                f"jax {versions.get('jax')}, gymnasium {versions.get('gymnasium')}, "
                f"mujoco {versions.get('mujoco')}",
                *(record.get("commit") or "unknown", (record.get("date") or "unknown")[:10]),
                "unknown" if wall is None else duration(wall),
            ]
        )
    headings = ("task", "method", "environment steps", "seeds", "hardware", "versions")
    return markdown_table([*headings, "commit", "date", "wall time"], rows)


def tables(methods: Sequence[Method]) -> str:
    return (
        f"{paper_form(curves_by_cell(methods))}\n### What was run\n\nWall time is from a method's "
        f"start to its end, with others beside it.\n\n{provenance_table(methods)}"
    )


def rebuild_page(store: Path) -> Path:
    """Write the tables between their marks; the rest of the page is the author's."""
    path = store / "README.md"
    page = path.read_text(encoding="utf-8") if path.is_file() else "# Results\n"
    if BEGIN not in page:
        page = f"{page.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise InputError(f"{path} has lost its mark {END!r} after the tables.")
    content = f"{before}{BEGIN}\n\n{tables(read_methods([store]))}\n{END}{after}"
    write_whole(path, content.encode(errors="replace"))  # half of the author's text would be a loss
    return path
