from typing import Any

import pytest
from rich.console import Console
from small import small

import lfiw.bench.learner
from lfiw.bench.learner import FILL_ROWS, bench_learner, update_flops
from lfiw.bench.result import BenchResult
from lfiw.cli.bench import BenchLearner
from lfiw.errors import InputError
from lfiw.learning.config import make_config
from lfiw.types import EnvSpec

HALF_CHEETAH = EnvSpec(obs_size=17, action_size=6)


def flops(agent: str, replay: str) -> float:
    return update_flops(make_config("HalfCheetah-v5", agent, replay), HALF_CHEETAH)


@pytest.mark.parametrize(
    ("agent", "replay", "number"),
    [
        ("sac", "uniform", 577_110_016),
        ("td3", "per", 413_466_624),
        ("sac", "lfiw", 791_281_664),
        ("td3", "lfiw", 627_638_272),
    ],
)
def test_operations_of_an_update(agent: str, replay: str, number: float) -> None:
    assert flops(agent, replay) == number


@pytest.mark.parametrize(("agent", "mega"), [("sac", 577), ("td3", 414)])
def test_operations_counted_apart_from_the_code(agent: str, mega: float) -> None:
    """An input's gradient is needed for the actions alone there, which is less than one percent
    at these sizes."""
    assert flops(agent, "uniform") / 1e6 == pytest.approx(mega, rel=0.01)


@pytest.mark.parametrize(("agent", "more"), [("sac", 1.37), ("td3", 1.52)])
def test_operations_that_lfiw_adds(agent: str, more: float) -> None:
    assert flops(agent, "lfiw") / flops(agent, "uniform") == pytest.approx(more, abs=0.005)


def test_operations_of_one_layer_by_hand() -> None:
    """Hidden size 1, batch 1, D = A = 1; a product of an m x n matrix costs 2 m n.

    TD3's actor 1-1-1: forward 4, gradient by weights 4, by the hidden layer 2. A critic
    2-1-1: forward 6, gradient by weights 6, by the hidden layer 2, by its action 2.
    Critics: target actor 4, two targets 12, two differentiated 2 (6 + 6 + 2) = 28: 44.
    Policy, every second time: actor 4 + 6, one critic 6 + 4: 20.
    """
    config = make_config("any", "td3", "uniform", **{"agent.hidden_sizes": (1,), "batch_size": 1})
    assert update_flops(config, EnvSpec(1, 1)) == 44 + 20 / 2


def test_rows() -> None:
    settings = small("uniform", env_steps=FILL_ROWS, buffer_size=FILL_ROWS)
    config = make_config("environments:make_point", "sac", "uniform", **settings)
    (row,) = bench_learner([config], calls=1).rows
    assert (row["agent"], row["replay"], row["runs"]) == ("sac", "uniform", 1)
    assert row["ratio_to_uniform"] == 1
    assert row["run_updates_per_s"] == pytest.approx(1e3 / row["ms_per_update"])
    assert row["gflop_per_s"] > 0
    assert row["share_of_peak"] > 0


def test_a_ring_smaller_than_what_fills_it() -> None:
    config = make_config("environments:make_point", "sac", "uniform", **small("uniform"))
    assert config.capacity < FILL_ROWS
    assert len(bench_learner([config], calls=1).rows) == 1


@pytest.mark.parametrize("options", [{"runs": ""}, {"calls": 0}])
def test_nothing_to_measure_is_one_sentence(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="at least"):
        BenchLearner(**options).run(Console(quiet=True))


def test_settings_reach_every_method_that_has_them(monkeypatch: Any) -> None:
    seen: list[Any] = []

    def measure(configs: list[Any], calls: int) -> Any:
        seen.extend(configs)
        return BenchResult("title", [], ())

    monkeypatch.setattr(lfiw.bench.learner, "bench_learner", measure)
    settings = ("deterministic=true", "replay.temperature=2.5")
    BenchLearner(runs="1", agent="sac", replay="uniform,lfiw", set=settings).run(
        Console(quiet=True)
    )
    assert [config.deterministic for config in seen] == [True, True]
    assert seen[1].replay.temperature == 2.5
