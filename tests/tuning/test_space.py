"""What is searched, and in which ranges: from the settings' declarations, worked by hand."""

from pathlib import Path

import optuna
import pytest

from lfiw.errors import InputError
from lfiw.learning.config import make_config
from lfiw.tuning.space import (
    Choices,
    Interval,
    config_of,
    make_space,
    start_of,
    value_of,
)


def space_of(agent: str, replay: str, *searches: str) -> dict[str, Interval | Choices]:
    config = make_config("A-v1", agent, replay)
    return {searched.name: searched for searched in make_space(config, searches)}


def interval(low: float, high: float, scale: str, integer: bool = False) -> tuple[object, ...]:
    return low, high, scale, integer


def as_tuple(searched: Interval | Choices) -> tuple[object, ...]:
    assert isinstance(searched, Interval)
    return searched.low, searched.high, searched.scale, searched.integer


def test_default_space() -> None:
    """A tenth to ten times the default: 3e-4, 0.005, 1 and 5. The discount 0.99 is 0.01 away from
    1: 0.001 to 0.1. The floor 0.6 lies in the middle of 0 to 1."""
    assert {name: as_tuple(own) for name, own in space_of("sac", "lfiw").items()} == {
        "agent.learning_rate": interval(3e-5, 3e-3, "log"),
        "agent.gamma": interval(0.9, 0.999, "log to 1"),
        "agent.tau": interval(0.0005, 0.05, "log"),
        "agent.initial_alpha": interval(0.1, 10, "log"),
        "replay.temperature": interval(0.5, 50, "log"),
        "replay.min_effective_sample_size": interval(0, 1, "linear"),
    }


def test_documented_ranges_are_those() -> None:
    def plain(number: float) -> str:
        return f"{number:.9f}".rstrip("0").rstrip(".")

    page = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
    config = make_config("A-v1", "sac", "lfiw")
    space = [own for own in make_space(config, ()) if isinstance(own, Interval)]
    rows = "".join(
        f"| `{own.name}` | {plain(value_of(config, own.name))} "
        f"| {plain(own.low)} to {plain(own.high)} |\n"
        for own in space
    )
    assert f"| setting | default | range |\n| --- | --- | --- |\n{rows}\n" in page


@pytest.mark.parametrize(
    ("replay", "expected"),
    [
        # The exponent's end, 1, is the end of its valid range.
        ("per", {"alpha": (0, 1), "beta": (0, 1), "epsilon": (1e-7, 1e-5)}),
        ("ere", {"eta": (0.96, 0.9996)}),  # 0.004 away from 1
        ("recency", {"rate": (1e-6, 1e-4), "floor": (0.01, 1)}),
        ("inverse-age", {}),  # its offset is the least that is valid
        ("uniform", {}),
    ],
)
def test_default_space_of_strategies(replay: str, expected: dict[str, tuple[float, float]]) -> None:
    found = {
        name.removeprefix("replay."): as_tuple(own)[:2]
        for name, own in space_of("td3", replay).items()
        if name.startswith("replay.")
    }
    assert found == expected


def test_what_is_set_is_not_searched() -> None:
    config = make_config("A-v1", "sac", "uniform")
    found = make_space(config, (), fixed=("agent.tau", "agent.gamma", "batch_size"))
    assert [own.name for own in found] == ["agent.learning_rate", "agent.initial_alpha"]


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("replay.temperature=1:9", interval(1, 9, "linear")),
        ("replay.temperature=1:10", interval(1, 10, "log")),
        ("agent.gamma=0.9:0.99", interval(0.9, 0.99, "log to 1")),
        ("agent.gamma=0.9:0.98", interval(0.9, 0.98, "linear")),  # 0.1 is five times 0.02
        ("agent.gamma=0.9:1", interval(0.9, 1, "linear")),
        ("replay.learning_rate=1e-5:1e-3", interval(1e-5, 1e-3, "log")),  # none by default
        ("replay.fast_size=1e3:5e3", interval(1000, 5000, "linear", True)),
        ("replay.fast_size", interval(1000, 100_000, "log", True)),
        ("batch_size = 64 : 640", interval(64, 640, "log", True)),
    ],
)
def test_interval_that_the_user_names(search: str, expected: tuple[object, ...]) -> None:
    (found,) = space_of("sac", "lfiw", search).values()
    assert as_tuple(found) == expected


@pytest.mark.parametrize(
    ("search", "values"),
    [
        ("batch_size=64,128,256", (64, 128, 256)),
        ("replay.learning_rate=none,1e-4", (None, 1e-4)),
        ("replay.divergence=kl,pearson", ("kl", "pearson")),
        ("replay.transform", ("sigmoid", "power")),
        ("replay.clip_ratio", (False, True)),
        ("replay.over=uniform,per", ("uniform", "per")),
    ],
)
def test_choices_that_the_user_names(search: str, values: tuple[object, ...]) -> None:
    (found,) = space_of("sac", "lfiw", search).values()
    assert isinstance(found, Choices) and found.values == values


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ("agent.gama=0:1", "Unknown setting 'agent.gama'. Did you mean agent.gamma?"),
        ("agent.gamma=0.5:2", "agent.gamma must be at most 1, not 2.0."),
        ("agent.tau=0:0.1", "agent.tau must be above 0, not 0.0."),
        ("agent.gamma=0.9:0.5", "agent.gamma=0.9:0.5 needs a lower end below the upper one."),
        ("agent.gamma=nan:1", "needs a lower end below the upper one."),
        ("replay.temperature=1:inf", "replay.temperature must be finite, not inf."),
        ("agent.gamma=low:1", "agent.gamma takes a value of type float, not 'low'."),
        ("batch_size=1.5:8", "batch_size takes a value of type int, not '1.5'."),
        ("batch_size=64:8192", "batch_size 8192 is larger than the data"),
        ("agent.gamma=0.9", "--search takes NAME=VALUE,VALUE... or NAME=LOW:HIGH, not"),
        ("agent.gamma=", "--search takes NAME=VALUE,VALUE... or NAME=LOW:HIGH, not"),
        ("replay.divergence=kl:pearson", "--search takes NAME=VALUE,VALUE..., not"),
        ("replay.divergence=kl,kl", "--search takes NAME=VALUE,VALUE..., not"),
        ("replay.divergence=kl,lk", "replay.divergence cannot be 'lk'."),
        ("replay.over=per,pear", "Unknown replay.over 'pear'. Did you mean per?"),
        ("replay.learning_rate", "No range follows from the value None"),
        ("agent.hidden_sizes=64,128", "agent.hidden_sizes has several values itself"),
        ("env_steps=100:200", "env_steps cannot be searched"),
        ("eval_episodes=1,9", "eval_episodes cannot be searched"),
        ("replay=uniform,per", "replay cannot be searched"),
        ("env.kwargs.g=1:2", "Unknown setting 'env.kwargs.g'."),
        ("=1:2", "Unknown setting ''."),
    ],
)
def test_search_that_cannot_be_used(search: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        space_of("sac", "lfiw", search)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_searches_that_contradict_each_other() -> None:
    with pytest.raises(InputError, match=r"--search names agent\.tau twice"):
        space_of("sac", "lfiw", "agent.tau", "agent.tau=0.1,0.2")
    with pytest.raises(InputError, match=r"agent\.tau is both set and searched"):
        make_space(make_config("A-v1"), ("agent.tau",), fixed=("agent.tau",))
    everything = [own.name for own in make_space(make_config("A-v1"), ())]
    with pytest.raises(InputError, match="There is nothing to search"):
        make_space(make_config("A-v1"), (), fixed=everything)


def test_parameters_of_a_study_and_settings_of_a_config() -> None:
    """A discount of 0.95 is a distance of 0.05 to 1."""
    config = make_config("A-v1", "sac", "lfiw")
    searches = ("agent.gamma=0.9:0.999", "replay.divergence", "replay.over=per,ere", "batch_size")
    space = make_space(config, (*searches[:3], "batch_size=32:64"))
    # 256 is above 64, and uniform no choice: the study chooses these two by itself.
    assert start_of(config, space) == {
        "1 - agent.gamma": pytest.approx(0.01),
        "replay.divergence": "jensen-shannon",
    }
    parameters = {"1 - agent.gamma": 0.05, "replay.divergence": "kl", "replay.over": "ere"}
    changed = config_of(config, space, parameters | {"batch_size": 33})
    assert changed.agent.gamma == 0.95
    assert (changed.replay.divergence, changed.replay.over.name) == ("kl", "ere")
    assert changed.batch_size == 33


def test_the_defaults_come_back_to_the_bit() -> None:
    for agent, replay in (("sac", "lfiw"), ("td3", "per"), ("xqc", "ere"), ("flashsac", "lap")):
        config = make_config("A-v1", agent, replay)
        space = make_space(config, ())
        assert config_of(config, space, start_of(config, space)) == config


def test_suggestions_are_of_the_range() -> None:
    config = make_config("A-v1", "sac", "lfiw")
    space = make_space(config, ("agent.gamma", "replay.fast_size=10:20", "replay.use"))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    discounts = []
    for _ in range(200):
        trial = study.ask()
        for searched in space:
            searched.suggest(trial)
        changed = config_of(config, space, trial.params)
        assert 0.9 <= changed.agent.gamma <= 0.999
        assert 10 <= changed.replay.fast_size <= 20
        assert changed.replay.use in ("weight", "priority")
        discounts.append(changed.agent.gamma)
    # By orders of magnitude: half of them are less than 0.01 away from 1.
    assert 70 < sum(discount > 0.99 for discount in discounts) < 130
