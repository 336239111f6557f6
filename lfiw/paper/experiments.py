"""All experiments by name. The paper's are here as data: what each shows, its methods and tasks,
and its analysis."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from lfiw.paper.accuracy import analyse_accuracy
from lfiw.paper.cells import Cell, Experiment, Study
from lfiw.paper.chain import ChainConfig, run_chain, save_chain
from lfiw.paper.q_quality import analyse_q_quality
from lfiw.paper.suites import SUITES
from lfiw.paper.tables import analyse_ablation, analyse_side_notes, analyse_table1
from lfiw.paper.theorem import TheoremConfig, run_theorem, save_theorem
from lfiw.results.catalogue import PLANNED, PUBLISHED, TASKS

NO_FLOOR: dict[str, Any] = {"replay.min_effective_sample_size": 0.0}
VARIANTS: dict[str, dict[str, Any]] = {  # by label
    "": {},
    PUBLISHED: NO_FLOOR,
    "power": NO_FLOOR | {"replay.transform": "power"},
}
TEMPERATURES = (1.0, 2.5, 5.0, 7.5, 10.0)  # appendix, as are the other grids
FAST_SIZES = (1_000, 10_000, 50_000, 100_000)
HIDDEN_UNITS = (128, 256, 512)

NUM_INITIALISATIONS = {"smoke": 200, "small": 200, "paper": 2000}
NUM_MDPS = {"smoke": 200, "small": 1000, "paper": 10_000}


def published(task: str, label: str = "", **settings: Any) -> Cell:
    """SAC + LFIW as published, or a labelled variant of it."""
    return Cell(task, "sac", "lfiw", label or PUBLISHED, NO_FLOOR | settings)


def grid(
    task: str, label: str, settings: dict[Any, dict[str, Any]], default: Any
) -> tuple[Cell, ...]:
    """SAC + LFIW as published once for each value; the default value is the plain method."""
    return tuple(
        published(task, "" if value == default else f"{label}={value:g}", **chosen)
        for value, chosen in settings.items()
    )


def temperature_grid(task: str) -> tuple[Cell, ...]:
    return grid(task, "temperature", {t: {"replay.temperature": t} for t in TEMPERATURES}, 5.0)


def reproduce_chain(study: Study) -> list[Path]:
    config = ChainConfig(num_initialisations=NUM_INITIALISATIONS[study.scale])
    return save_chain(run_chain(config), study.out)


def reproduce_theorem(study: Study) -> list[Path]:
    return save_theorem(run_theorem(TheoremConfig(num_mdps=NUM_MDPS[study.scale])), study.out)


ablation_of_temperature = partial(analyse_ablation, setting="replay.temperature")

OF_PAPER: dict[str, Experiment] = {
    "chain": Experiment(
        "Figure 1, the chain MDP",
        "how the weighting of TD updates sets the speed of learning, and how the discount turns it",
        reproduce_chain,
    ),
    "theorem": Experiment(
        "Theorem 1 on random MDPs",
        "in which norms the Bellman operator contracts by gamma",
        reproduce_theorem,
    ),
    "table1": Experiment(
        "Table 1, Figures 2 and 3",
        "seven methods on five tasks, and LFIW with its other weight transform and with its floor",
        analyse_table1,
        tuple(Cell(task, *row, VARIANTS[row.label]) for (task, _), row in PLANNED.items()),
        smoke_tasks=("Hopper-v5",),
    ),
    "accuracy": Experiment(
        "Accuracy of the ratio network",
        "can it tell the final policy's experience from that of earlier policies",
        analyse_accuracy,
        tuple(published(task) for task in TASKS),
        tasks=("Humanoid-v5",),
    ),
    "q-quality": Experiment(
        "Quality of Q",
        "Q's correlation with Monte-Carlo returns, for SAC and SAC + LFIW",
        analyse_q_quality,
        tuple(cell for task in TASKS for cell in (Cell(task, "sac", "uniform"), published(task))),
        tasks=("Humanoid-v5",),
    ),
    "ablation-temperature": Experiment(
        "Ablation: temperature, Walker2d",
        "five temperatures (the paper: all alike but T = 1, which is worse)",
        ablation_of_temperature,
        temperature_grid("Walker2d-v5"),
    ),
    "ablation-fast-size": Experiment(
        "Ablation: size of the fast memory, Walker2d",
        "four sizes (the paper: stable, with a small drop for the largest)",
        partial(analyse_ablation, setting="replay.fast_size"),
        grid(
            "Walker2d-v5", "fast", {size: {"replay.fast_size": size} for size in FAST_SIZES}, 10_000
        ),
    ),
    "ablation-hidden": Experiment(
        "Ablation: hidden units of the ratio network, Walker2d",
        "three sizes (the paper: the smallest starts best, the others catch up)",
        partial(analyse_ablation, setting="replay.hidden_sizes"),
        grid(
            "Walker2d-v5",
            "hidden",
            {units: {"replay.hidden_sizes": (units, units)} for units in HIDDEN_UNITS},
            256,
        ),
    ),
    "ablation-temperature-humanoid": Experiment(
        "Ablation: temperature, Humanoid",
        "five temperatures (the paper: T = 1 is worse here too)",
        ablation_of_temperature,
        temperature_grid("Humanoid-v5"),
    ),
    "side-notes": Experiment(
        "Side remarks of the paper",
        "weighting the policy's update too, PER x LFIW, and the weights beside the gain on Hopper",
        analyse_side_notes,
        (
            Cell("HalfCheetah-v5", "sac", "uniform"),
            Cell("HalfCheetah-v5", "sac", "per"),
            published("HalfCheetah-v5"),
            published("HalfCheetah-v5", "policy", **{"replay.weight_policy": True}),
            published("HalfCheetah-v5", "per", **{"replay.over": "per"}),
            Cell("Hopper-v5", "sac", "uniform"),
            published("Hopper-v5"),
        ),
    ),
}
EXPERIMENTS = OF_PAPER | SUITES
