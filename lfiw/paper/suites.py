"""Experiments that go beyond the paper, as data: each ends in a report with rankings and
intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lfiw.paper.cells import Cell, Experiment, Study
from lfiw.report import write_report
from lfiw.results.catalogue import TASKS

# Of all suites, Humanoid too: fewer evaluations than the paper's, as they cost up to a third of the
# steps.
LENGTHS: dict[str, Any] = {
    "env_steps": 1_000_000,
    "eval_every_env_steps": 20_000,
    "eval_episodes": 3,
}
COMPARED = ("uniform", "per", "ere", "recency", "cer", "lap", "pal", "faded-per", "lfiw")
WITHOUT: dict[str, dict[str, Any]] = {  # an ingredient of XQC, by label
    f"{setting}={str(value).lower()}": {f"agent.{setting}": value}
    for setting, value in {
        "categorical": False,
        "scale_rewards": False,
        "batch_norm": False,
        "unit_norm": False,
        "learning_rate_end": 3e-4,
        "policy_delay": 1,
        "initial_alpha": 1.0,
        "gamma": 0.99,
    }.items()
}
FLOOR = "replay.min_effective_sample_size"


def suite_cell(task: str, agent: str, replay: str, label: str = "", **settings: Any) -> Cell:
    return Cell(task, agent, replay, label, LENGTHS | settings)


def floor_cells(task: str, agent: str, *floors: float) -> tuple[Cell, ...]:
    """And uniform replay, which they are compared with. The default floor is the plain method."""
    return (
        suite_cell(task, agent, "uniform"),
        *(
            suite_cell(
                task, agent, "lfiw", "" if floor == 0.6 else f"floor={floor:g}", **{FLOOR: floor}
            )
            for floor in floors
        ),
    )


def report_suite(study: Study) -> list[Path]:
    folders = [training.folder for training in study.trainings]
    return write_report(folders, study.out / f"{study.name}-report", note=study.note)


SUITES: dict[str, Experiment] = {
    "comparison": Experiment(
        "The replay strategies that people use",
        "nine strategies with SAC on five tasks and with TD3 on two, and LFIW over recency",
        report_suite,
        (
            *(suite_cell(task, "sac", replay) for task in TASKS for replay in COMPARED),
            *(
                suite_cell(task, "td3", replay)
                for task in ("Walker2d-v5", "Ant-v5")
                for replay in COMPARED
            ),
            suite_cell(
                "HalfCheetah-v5", "sac", "lfiw", "over=recency", **{"replay.over": "recency"}
            ),
        ),
        smoke_tasks=("Walker2d-v5",),
        root="comparison",
    ),
    "floor": Experiment(
        "The floor under the effective sample size",
        "five floors with SAC on Walker2d and TD3 on Ant, three with SAC on Humanoid, beside "
        "uniform replay",
        report_suite,
        (
            *floor_cells("Walker2d-v5", "sac", 0.3, 0.4, 0.5, 0.6, 0.7),
            *floor_cells("Ant-v5", "td3", 0.3, 0.4, 0.5, 0.6, 0.7),
            *floor_cells("Humanoid-v5", "sac", 0.4, 0.5, 0.6),
        ),
        smoke_tasks=("Walker2d-v5",),
        root="floor",
    ),
    "modern": Experiment(
        "An agent of today",
        "whether LFIW's weights help XQC, on five tasks; every strategy on one; XQC without each "
        "of its ingredients on two",
        report_suite,
        (
            *(
                suite_cell(task, "xqc", replay)
                for task in TASKS
                for replay in (COMPARED if task == "Walker2d-v5" else ("uniform", "lfiw"))
            ),
            *(
                suite_cell(task, "xqc", "uniform", label, **settings)
                for task in ("Hopper-v5", "Humanoid-v5")
                for label, settings in WITHOUT.items()
            ),
        ),
        smoke_tasks=("Hopper-v5",),
        root="modern",
    ),
}
