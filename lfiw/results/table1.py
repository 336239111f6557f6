"""Table 1 in the paper's form: methods by tasks, beside the published numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from lfiw.results.curves import Curves
from lfiw.results.published import ENV_STEPS, METHODS, family_of, published
from lfiw.results.table import markdown_table
from lfiw.wording import spread

NOT_RUN, NOT_PLANNED = "not run", "-"
PAPER_TASKS = tuple(f"{family}-v5" for family in ENV_STEPS)
PAPER_METHODS = (*METHODS[:4], "sac-lfiw-power", *METHODS[4:], "td3-lfiw-power")
PLANNED = {
    (task, method)
    for task in PAPER_TASKS
    for method in PAPER_METHODS
    if not (task.startswith("Humanoid") and method.startswith("td3"))  # as in the paper
}
MEASURES: dict[str, Callable[[Curves], np.ndarray]] = {
    "Maximum: each seed's best evaluation, the paper's number": Curves.maximum,
    "Final: mean of each seed's last ten evaluations (a tenth of a shorter curve)": Curves.final,
    "Area under the curve: each seed's mean return over training": Curves.area,
}

CurvesByCell = Mapping[tuple[str, str], Curves]  # by task and method


def is_planned(task: str, method: str) -> bool:
    """Whether a cell belongs to the table; other tasks than the paper's have no plan to miss."""
    family = family_of(task)
    return family not in ENV_STEPS or (f"{family}-v5", method) in PLANNED


def tasks_of(cells: CurvesByCell) -> list[str]:
    return list(dict.fromkeys((*PAPER_TASKS, *(task for task, _ in cells))))


def methods_of(cells: CurvesByCell) -> list[str]:
    return list(dict.fromkeys((*PAPER_METHODS, *(method for _, method in cells))))


def length_note(curves: Curves) -> str:
    """The length of a run, where it is not the paper's."""
    steps = int(curves.env_steps[-1])
    return "" if steps == ENV_STEPS.get(family_of(curves.env)) else f" (at {steps:,} steps)"


def measure_table(cells: CurvesByCell, measure: Callable[[Curves], np.ndarray]) -> str:
    def cell(task: str, method: str) -> str:
        if (task, method) in cells:
            curves = cells[task, method]
            return spread(measure(curves)) + length_note(curves)
        return NOT_RUN if (task, method) in PLANNED else NOT_PLANNED

    tasks = tasks_of(cells)
    rows = [[method, *(cell(task, method) for task in tasks)] for method in methods_of(cells)]
    return markdown_table(["", *tasks], rows)


def published_table() -> str:
    def cell(task: str, method: str) -> str:
        number = published(task, method)
        return f"{number.mean:,.0f} ± {number.std:,.0f}" if number else NOT_PLANNED

    rows = [[method, *(cell(task, method) for task in PAPER_TASKS)] for method in METHODS]
    return markdown_table(["", *(f"{family}-v2" for family in ENV_STEPS)], rows)


def paper_form(cells: CurvesByCell) -> str:
    parts = ["Mean ± standard deviation over seeds."]
    parts += [
        f"### {title}\n\n{measure_table(cells, measure)}" for title, measure in MEASURES.items()
    ]
    parts.append(f"### The paper's Table 1 (maximum, -v2, 5 seeds)\n\n{published_table()}")
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
