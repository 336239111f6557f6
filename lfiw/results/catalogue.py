"""What tables and pictures are made of: the paper's tasks and methods, measures and looks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from lfiw.results.curves import Curves

# The paper's tasks, in its order, and their lengths.
ENV_STEPS = {
    "Hopper": 1_000_000,
    "Walker2d": 1_000_000,
    "HalfCheetah": 1_000_000,
    "Ant": 1_000_000,
    "Humanoid": 5_000_000,
}
# As today's versions. Ant-v5 with its own observation of 105 numbers, which includes contact
# forces.
TASKS = {f"{family}-v5": env_steps for family, env_steps in ENV_STEPS.items()}


def family_of(task: str) -> str:
    """The name without its version: HalfCheetah for HalfCheetah-v5."""
    return task.partition("-v")[0]


class PlannedMethod(NamedTuple):
    agent: str
    replay: str
    label: str = ""

    @property
    def name(self) -> str:
        return "-".join(filter(None, self))


# LFIW without a floor under the effective sample size. Its transform is `sigmoid`, that of the
# authors' code; `power` is the paper's text.
PUBLISHED = "published"
# Table 1's rows, each followed by what is planned beside it.
PLANNED_METHODS = (
    PlannedMethod("sac", "uniform"),
    PlannedMethod("sac", "per"),
    PlannedMethod("sac", "ere"),
    PlannedMethod("sac", "lfiw", PUBLISHED),
    PlannedMethod("sac", "lfiw", "power"),
    PlannedMethod("sac", "lfiw"),
    PlannedMethod("td3", "uniform"),
    PlannedMethod("td3", "per"),
    PlannedMethod("td3", "lfiw", PUBLISHED),
    PlannedMethod("td3", "lfiw", "power"),
    PlannedMethod("td3", "lfiw"),
)
# In the order of the paper's table.
PAPER_METHODS = tuple(
    method for method in PLANNED_METHODS if method.label == PUBLISHED or method.replay != "lfiw"
)
# By task and method's name.
PLANNED = {
    (task, method.name): method
    for task in TASKS
    for method in PLANNED_METHODS
    if not (task == "Humanoid-v5" and method.agent == "td3")  # as in the paper
}


def is_planned(task: str, method: str) -> bool:
    """Whether a cell belongs to the table; other tasks than the paper's have no plan to miss."""
    family = family_of(task)
    return family not in ENV_STEPS or (f"{family}-v5", method) in PLANNED


class Measure(NamedTuple):
    """A number that sums up a seed's curve."""

    name: str
    short: str  # in the files of `lfiw reproduce`
    title: str
    of: Callable[[Curves], np.ndarray]  # -> [S]
    explanation: str
    remark: str = ""


MEASURES = (
    Measure(
        *("maximum", "max", "maximum", lambda curves: curves.maximum()),
        explanation="each seed's best evaluation, the paper's number",
        remark=" (there on -v2 tasks, Humanoid for 5,000,000 steps); it grows with the number of "
        "evaluations",
    ),
    Measure(
        *("final", "final", "final", lambda curves: curves.final()),
        explanation="each seed's mean over its last ten evaluations (a tenth of a shorter curve)",
    ),
    Measure(
        *("area", "area", "area under the curve", lambda curves: curves.area()),
        explanation="each seed's mean return over training",
    ),
)


class Look(NamedTuple):
    """Of a line; style and marker tell lines apart without colours."""

    colour: str
    style: str
    marker: str


# Okabe and Ito's palette, and two of Tol's: told apart by colour-blind readers too.
BLUE, VERMILION, GREEN, PURPLE, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"
SKY, BLACK, WINE, OLIVE = "#56B4E9", "#000000", "#882255", "#999933"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, WINE, OLIVE)
STYLES = ("-", "--", "-.", ":")
MARKERS = ("circle", "square", "triangle", "diamond", "cross")
LOOKS = tuple(
    Look(COLOURS[index % len(COLOURS)], STYLES[index % len(STYLES)], MARKERS[index % len(MARKERS)])
    for index in range(len(COLOURS) * len(STYLES))  # which have no common factor: all differ
)
# In the paper's order.
STRATEGIES = {"uniform": LOOKS[1], "per": LOOKS[2], "ere": LOOKS[3], "lfiw": LOOKS[0]}

# The fifths of a memory: their title, colour and dashes.
AGES = (
    ("newest fifth", BLUE, ""),
    ("second", SKY, "9 3"),
    ("third", GREEN, "6 3"),
    ("fourth", ORANGE, "3 3"),
    ("oldest fifth", VERMILION, "1 3"),
)


# Of strategies whose names are words; the others are abbreviations.
WORDS = {
    "uniform": "uniform",
    "recency": "recency",
    "inverse-age": "1/age",
    "faded-per": "faded PER",
}


def strategy_title(replay: str) -> str:
    return WORDS.get(replay, replay.upper())


def looks(strategies: Iterable[str]) -> dict[str, Look]:
    """The look of each strategy, a kind with its label: that of the paper's four is the same in
    every picture, the others have the next ones in their order."""
    others = (name for name in dict.fromkeys(strategies) if name not in STRATEGIES)
    return STRATEGIES | dict(zip(others, itertools.cycle(LOOKS[len(STRATEGIES) :])))
