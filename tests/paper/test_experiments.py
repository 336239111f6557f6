"""The experiments are data: their numbers are the paper's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lfiw.learning.config import TrainConfig, check, warnings
from lfiw.paper.cells import SCALES, Cell, config_of, training_of
from lfiw.paper.experiments import EXPERIMENTS, OF_PAPER
from lfiw.paper.suites import WITHOUT
from lfiw.replay.per import PerConfig
from lfiw.replay.recency import RecencyConfig
from lfiw.report.summary import summarise
from lfiw.results.catalogue import TASKS
from lfiw.results.curves import Curves
from lfiw.results.method import Method
from lfiw.settings import to_json

PAPER = SCALES["paper"]


def cells(name: str, task: str | None = None) -> list[Cell]:
    return [cell for cell in EXPERIMENTS[name].cells if task in (None, cell.task)]


def paper_config(name: str, task: str, method: str) -> TrainConfig:
    (cell,) = [cell for cell in cells(name, task) if cell.method == method]
    return config_of(cell, PAPER)


def test_names() -> None:
    assert list(EXPERIMENTS) == [
        "chain",
        "theorem",
        "table1",
        "accuracy",
        "q-quality",
        "ablation-temperature",
        "ablation-fast-size",
        "ablation-hidden",
        "ablation-temperature-humanoid",
        "side-notes",
        "comparison",
        "floor",
        "modern",
    ]


def test_table1_is_the_papers_table_with_the_other_transform_and_the_floor() -> None:
    lfiw = ("lfiw-published", "lfiw-power", "lfiw")
    sac = {f"sac-{replay}" for replay in ("uniform", "per", "ere", *lfiw)}
    td3 = {f"td3-{replay}" for replay in ("uniform", "per", *lfiw)}
    for task in ("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5", "Ant-v5"):
        assert {cell.method for cell in cells("table1", task)} == sac | td3
    assert {cell.method for cell in cells("table1", "Humanoid-v5")} == sac


def test_table1_takes_160_runs_and_240_million_steps() -> None:
    """7 methods x 4 tasks x 5 seeds of 1M, and 4 methods x 5 seeds of 5M: 140M + 100M."""

    def count(chosen: list[Cell]) -> tuple[int, int]:
        configs = [config_of(cell, PAPER) for cell in chosen]
        runs = [len(config.seeds) for config in configs]
        return sum(runs), sum(n * c.env_steps for n, c in zip(runs, configs, strict=True))

    papers = [
        cell for cell in cells("table1") if cell.replay != "lfiw" or cell.label == "published"
    ]
    assert count(papers) == (160, 240_000_000)
    assert count([cell for cell in cells("table1") if cell.label == "power"]) == (45, 65_000_000)


def test_paper_scale_has_the_papers_numbers() -> None:
    config = paper_config("table1", "Walker2d-v5", "sac-lfiw-published")
    assert (config.seeds, config.env_steps) == ((0, 1, 2, 3, 4), 1_000_000)
    assert (config.batch_size, config.buffer_size) == (256, 1_000_000)
    assert (config.phase_env_steps, config.updates_per_env_step) == (1000, 1.0)
    assert (config.eval_every_env_steps, config.eval_episodes) == (10_000, 5)
    assert (config.agent.learning_rate, config.agent.hidden_sizes) == (3e-4, (256, 256))
    replay = config.replay
    assert (replay.temperature, replay.fast_size, replay.hidden_sizes) == (5, 10_000, (256, 256))
    assert (replay.warmup_env_steps, replay.transform) == (100_000, "sigmoid")
    power = paper_config("table1", "Walker2d-v5", "td3-lfiw-power")
    assert (power.replay.transform, power.agent.learning_rate) == ("power", 1e-3)
    longest = paper_config("table1", "Humanoid-v5", "sac-ere")
    assert (longest.env_steps, longest.eval_every_env_steps) == (5_000_000, 50_000)


@pytest.mark.parametrize(
    ("name", "task", "field", "values"),
    [
        ("ablation-temperature", "Walker2d-v5", "temperature", [1, 2.5, 5, 7.5, 10]),
        ("ablation-temperature-humanoid", "Humanoid-v5", "temperature", [1, 2.5, 5, 7.5, 10]),
        ("ablation-fast-size", "Walker2d-v5", "fast_size", [1e3, 1e4, 5e4, 1e5]),
        ("ablation-hidden", "Walker2d-v5", "hidden_sizes", [(128,) * 2, (256,) * 2, (512,) * 2]),
    ],
)
def test_grids(name: str, task: str, field: str, values: list[Any]) -> None:
    configs = [config_of(cell, PAPER) for cell in EXPERIMENTS[name].cells]
    assert [getattr(config.replay, field) for config in configs] == values
    assert {(config.env.id, config.method) for config in configs} == {(task, "sac-lfiw")}
    assert all(config.env_steps == TASKS[task] for config in configs)


def test_side_notes() -> None:
    cheetah = {
        cell.method: config_of(cell, PAPER) for cell in cells("side-notes", "HalfCheetah-v5")
    }
    assert cheetah["sac-lfiw-policy"].replay.weight_policy
    assert not cheetah["sac-lfiw-published"].replay.weight_policy
    assert cheetah["sac-lfiw-per"].replay.over == PerConfig()
    assert {"sac-uniform", "sac-per"} < cheetah.keys()
    hopper = {cell.method for cell in cells("side-notes", "Hopper-v5")}
    assert hopper == {"sac-uniform", "sac-lfiw-published"}


def test_the_papers_lfiw_has_no_floor() -> None:
    for name, experiment in OF_PAPER.items():
        for cell in experiment.cells:
            floor = getattr(config_of(cell, PAPER).replay, "min_effective_sample_size", 0.0)
            assert floor == (
                0.6 if (name, cell.label, cell.replay) == ("table1", "", "lfiw") else 0
            )


def test_suites_by_hand() -> None:
    """Nine strategies on five tasks and two more of TD3, and LFIW over recency; five floors twice
    and three, each beside uniform replay; nine strategies on one task, two on four, eight
    ingredients on two."""
    runs = {"comparison": (5 * 9 + 2 * 9 + 1) * 5, "floor": 16 * 5, "modern": (9 + 8 + 16) * 5}
    for name, count in runs.items():
        configs = [config_of(cell, PAPER) for cell in cells(name)]
        assert sum(len(config.seeds) for config in configs) == count
        assert {config.env_steps for config in configs} == {1_000_000}  # Humanoid too
        lengths = {(config.eval_every_env_steps, config.eval_episodes) for config in configs}
        assert lengths == {(20_000, 3)}
        assert len({(cell.task, cell.method) for cell in cells(name)}) == len(cells(name))


@pytest.mark.parametrize("name", ["comparison", "floor", "modern"])
def test_the_report_of_a_suite_compares_all_of_it_with_plain_uniform_replay(name: str) -> None:
    methods = [
        Method(
            Curves(cell.task, cell.agent, cell.method, (0,), np.array([1, 2]), np.array([[0, 1]])),
            {},
            {"config": to_json(config_of(cell, PAPER))},
            Path(cell.method),
        )
        for cell in cells(name)
    ]
    compared = {
        outcome.method.name: outcome.improvement is not None
        for outcome in summarise(methods).outcomes.values()
        if outcome.method
    }
    assert compared.keys() == {cell.method for cell in cells(name)}
    assert {method for method in compared if not compared[method]} == {
        f"{cell.agent}-uniform" for cell in cells(name)
    }


def test_what_sets_the_cells_of_suites_apart() -> None:
    over = paper_config("comparison", "HalfCheetah-v5", "sac-lfiw-over=recency")
    assert over.replay.over == RecencyConfig()
    floors = {
        cell.method: config_of(cell, PAPER).replay.min_effective_sample_size
        for cell in cells("floor", "Humanoid-v5")
        if cell.replay == "lfiw"
    }
    assert floors == {"sac-lfiw-floor=0.4": 0.4, "sac-lfiw-floor=0.5": 0.5, "sac-lfiw": 0.6}

    plain = to_json(paper_config("modern", "Hopper-v5", "xqc-uniform").agent)
    for label, settings in WITHOUT.items():
        agent = to_json(paper_config("modern", "Hopper-v5", f"xqc-uniform-{label}").agent)
        changed = {f"agent.{name}": value for name, value in agent.items() if value != plain[name]}
        assert changed == settings


def test_small_scale_is_a_tenth() -> None:
    small = config_of(Cell("Walker2d-v5", "sac", "lfiw"), SCALES["small"])
    assert (small.env_steps, small.buffer_size, len(small.seeds)) == (100_000, 100_000, 3)
    assert (small.replay.fast_size, small.replay.warmup_env_steps) == (1000, 10_000)
    assert small.agent.hidden_sizes == (256, 256)


@pytest.mark.parametrize("scale", SCALES)
def test_every_config_can_run_with_its_weights_on(scale: str) -> None:
    for experiment in EXPERIMENTS.values():
        for cell in experiment.cells:
            config = config_of(cell, SCALES[scale])
            check(config)
            assert warnings(config) == []


@pytest.mark.parametrize("scale", SCALES)
def test_experiments_that_share_a_folder_mean_the_same_run(scale: str) -> None:
    seen: dict[Path, TrainConfig] = {}
    for experiment in EXPERIMENTS.values():
        for cell in experiment.cells:
            out = Path("out") / experiment.root
            run = training_of(cell, config_of(cell, SCALES[scale]), out)
            assert to_json(seen.setdefault(run.folder, run.config)) == to_json(run.config)
    # The default of each grid on Walker2d is Table 1's run: 4 + 3 + 2 folders of their own.
    own = [path for path in seen if path.parent == Path("out/Walker2d-v5") and "=" in path.name]
    assert len(own) == 9
