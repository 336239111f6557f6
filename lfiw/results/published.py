"""The paper's Table 1 as data: the best evaluation of each seed, mean and standard deviation over
5 seeds, on Gymnasium's predecessors (-v2) of the tasks."""

from __future__ import annotations

from typing import NamedTuple

from lfiw.results.catalogue import PAPER_METHODS, family_of


class Published(NamedTuple):
    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:,.0f} ± {self.std:,.0f}"


# By PAPER_METHODS; the paper has no Humanoid for TD3.
_TABLE_1 = {
    "Hopper": "2004 356, 1853 106, 1759 234, 2395 212, 2486 125, 1704 228, 3003 261",
    "Walker2d": "3862 106, 3210 418, 3601 485, 3855 224, 4212 456, 4268 278, 5159 189",
    "HalfCheetah": "6548 635, 6816 531, 6666 589, 7037 629, 4295 523, 4766 325, 6184 876",
    "Ant": "3138 283, 2853 132, 3346 116, 3857 221, 2969 202, 3679 156, 3864 205",
    "Humanoid": "5515 329, 4650 315, 5586 705, 6436 254",
}
TABLE_1 = {
    (family, method.name): Published(*map(float, cell.split()))
    for family, cells in _TABLE_1.items()
    for method, cell in zip(PAPER_METHODS, cells.split(","), strict=False)
}


def published(task: str, method: str) -> Published | None:
    """The paper's number for a method, with its defaults, on a task."""
    return TABLE_1.get((family_of(task), method))
