import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from lfiw.agents import AGENTS
from lfiw.agents.sac import SacConfig
from lfiw.agents.td3 import Td3Config
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.learning.config import (
    TrainConfig,
    check,
    config_from_json,
    make_config,
    warnings,
)
from lfiw.replay import REPLAYS
from lfiw.replay.lfiw import LfiwConfig
from lfiw.replay.per import PerConfig
from lfiw.replay.uniform import UniformConfig
from lfiw.settings import conformed, override, parts, to_json, walk
from lfiw.training import train

METHODS = [(agent, replay) for agent in AGENTS for replay in REPLAYS]


def refusal(*arguments: Any, **settings: Any) -> str:
    with pytest.raises(InputError) as raised:
        check(make_config("Pendulum-v1", *arguments, **settings))
    return str(raised.value)


def test_registries_have_every_agent_and_strategy() -> None:
    assert set(AGENTS) >= {"sac", "td3"}
    assert set(REPLAYS) >= {"uniform", "per", "ere", "recency", "lfiw"}
    for registry in (AGENTS, REPLAYS):
        assert {name: kind.name for name, kind in registry.items()} == {n: n for n in registry}


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize(("agent", "replay"), METHODS)
def test_every_preset_passes_its_checks_and_survives_json(
    agent: str, replay: str, preset: str
) -> None:
    config = make_config("Pendulum-v1", agent, replay, preset, seeds=[3, 1], env_steps="1e5")
    check(config)
    assert config.method == f"{agent}-{replay}"
    assert config.seeds == (3, 1)
    assert config.env_steps == 100_000
    stored = json.loads(json.dumps(to_json(config)))
    assert stored["agent"]["name"] == agent
    assert stored["replay"]["name"] == replay
    assert config_from_json(stored) == config


def test_json_holds_every_setting() -> None:
    config = make_config("Pendulum-v1", "td3", "lfiw")
    stored = to_json(config)
    for name, _, value in walk(config):
        found: Any = stored
        for part in name.split("."):
            found = found[part]
        assert found == (list(value) if isinstance(value, tuple) else value)


def test_environment_survives_json() -> None:
    env = EnvConfig("Pendulum-v1", {"g": 9.0, "names": ["a"]}, max_episode_steps=70)
    config = make_config(env)
    assert config_from_json(json.loads(json.dumps(to_json(config)))).env == env


def test_paper_preset() -> None:
    """docs/method.md, section 5: rlkit's loop and the paper's numbers."""
    config = make_config("Hopper-v5", "td3", "lfiw", "paper")
    assert config.phase_env_steps == config.learning_starts == 1000
    assert config.phase_env_steps * config.updates_per_env_step == 1000
    assert config.random_env_steps == 0
    assert config.batch_size == 256
    assert config.buffer_size == 1_000_000
    assert config.agent == Td3Config(hidden_sizes=(400, 300), exploration_noise=1.0)
    assert config.agent.learning_rate == 1e-3
    assert config.agent.policy_delay == 2
    replay = config.replay
    assert (replay.transform, replay.temperature, replay.fast_size) == ("power", 5.0, 10_000)
    assert (replay.warmup_env_steps, replay.divergence) == (100_000, "jensen-shannon")
    per = make_config("Hopper-v5", "sac", "per", "paper").replay
    assert (per.alpha, per.beta, per.beta_end) == (0.6, 0.4, 0.4)
    sac = make_config("Hopper-v5", "sac", "per", "paper").agent
    assert (sac.learning_rate, sac.gamma, sac.tau, sac.hidden_sizes) == (
        3e-4,
        0.99,
        5e-3,
        (256,) * 2,
    )


def test_default_preset() -> None:
    config = make_config("Hopper-v5")
    assert config == TrainConfig(EnvConfig("Hopper-v5"), SacConfig(), LfiwConfig())
    assert config.replay.transform == "sigmoid"
    assert config.random_env_steps > 0
    assert make_config("Hopper-v5", "td3").agent.hidden_sizes == (256, 256)
    assert PerConfig().beta_end == 1.0


def test_settings_beat_the_preset() -> None:
    config = make_config(
        "Hopper-v5", "td3", "lfiw", "paper", phase_env_steps=7, **{"replay.temperature": 2.5}
    )
    assert config.phase_env_steps == 7
    assert config.replay.temperature == 2.5
    assert config.replay.transform == "power"


def test_configs_in_place_of_names() -> None:
    config = make_config("Hopper-v5", Td3Config(gamma=0.9), LfiwConfig(temperature=3.0))
    assert (config.method, config.agent.gamma, config.replay.temperature) == ("td3-lfiw", 0.9, 3.0)


def test_schedule_and_capacity() -> None:
    config = make_config("Hopper-v5", env_steps=5000, buffer_size=3000)
    assert config.schedule_horizon == 5000
    assert config.capacity == 3000
    assert replace(config, schedule_env_steps=900).schedule_horizon == 900
    assert replace(config, env_steps=20).capacity == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sacc",), "Unknown agent 'sacc'. Did you mean sac?"),
        (("sac", "lfwi"), "Unknown replay strategy 'lfwi'. Did you mean lfiw?"),
        (("sac", "lfiw", "papr"), "Unknown preset 'papr'. Did you mean paper?"),
        (("zzz",), "Unknown agent 'zzz'. Valid names: flashsac, sac, td3, xqc."),
    ],
)
def test_unknown_names_get_the_nearest(arguments: tuple[str, ...], message: str) -> None:
    assert refusal(*arguments) == message


def test_unknown_settings_get_the_nearest() -> None:
    assert refusal(env_step=3) == "Unknown setting 'env_step'. Did you mean env_steps?"
    assert refusal(**{"replay.temprature": 3}) == (
        "Unknown setting 'replay.temprature'. Did you mean replay.temperature?"
    )
    assert "agent.gamma" in refusal("td3", **{"agent.gama": 3})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"replay.temperature": 0.0}, "replay.temperature must be above 0, not 0.0."),
        ({"replay.temperature": -1.0}, "replay.temperature must be above 0, not -1.0."),
        ({"agent.gamma": 1.1}, "agent.gamma must be at most 1, not 1.1."),
        ({"agent.learning_rate": 0.0}, "agent.learning_rate must be above 0"),
        ({"agent.hidden_sizes": (0,)}, "agent.hidden_sizes must be at least 1, not 0."),
        ({"env_steps": 0}, "env_steps must be at least 1, not 0."),
        ({"eval_episodes": 0}, "eval_episodes must be at least 1, not 0."),
        ({"updates_per_env_step": 0.0}, "updates_per_env_step must be above 0"),
        ({"seeds": ()}, "At least one seed is needed."),
        ({"seeds": (1, 2, 1)}, "Seeds must differ from each other, not [1, 2, 1]."),
        ({"seeds": (-1,)}, "seeds must be at least 0, not -1."),
        ({"seeds": (2**32,)}, "Seeds must be below 2^32, not 4294967296."),
        ({"batch_size": 6000}, "batch_size 6000 is larger than the data before training starts"),
        ({"learning_starts": 100}, "batch_size 256 is larger than the data before training starts"),
        ({"buffer_size": 4000, "replay.fast_size": 10}, "buffer_size 4000 is smaller than"),
        ({"buffer_size": 10_000}, "replay.fast_size 10000 must be below the ring's capacity"),
        ({"replay.fast_size": 10**6}, "replay.fast_size 1000000 must be below"),
        ({"phase_env_steps": 10**7}, "phase_env_steps 10000000 exceeds buffer_size 1000000."),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(settings: dict[str, Any], words: str) -> None:
    message = refusal(**settings)
    assert words in message
    assert message.endswith(".")
    assert "\n" not in message


def test_edges_are_allowed() -> None:
    check(make_config("Hopper-v5", buffer_size=10_001))  # fast_size 10000
    check(make_config("Hopper-v5", learning_starts=256))  # batch_size 256
    check(make_config("Hopper-v5", seeds=(2**32 - 1, 0)))


@pytest.mark.parametrize(
    "settings",
    [
        {"env_steps": 10**12},
        {"replay.warmup_env_steps": 10**12},
        {"schedule_env_steps": 10**12},
    ],
)
def test_numbers_that_the_device_cannot_hold_are_refused(settings: dict[str, Any]) -> None:
    """Counts are 32-bit integers on the device."""
    assert "must be" in refusal(**settings)


def test_whole_floats_are_integers_in_python_too() -> None:
    config = make_config("Hopper-v5", env_steps=1e6)
    assert (config.env_steps, type(config.env_steps)) == (1_000_000, int)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("env_steps", 2000.5),
        ("env_steps", None),
        ("seeds", ("a",)),
        ("agent.gamma", [0.9]),
        ("replay.divergence", "kullback"),
        ("replay.transform", 1),
    ],
)
def test_values_of_another_type_are_refused(key: str, value: Any) -> None:
    assert key in refusal(**{key: value})


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("agent", SacConfig),
        ("agent", LfiwConfig()),
        ("agent", None),
        ("replay", LfiwConfig),
        ("replay", SacConfig()),
        ("env", gymnasium.make("Pendulum-v1")),
    ],
)
def test_parts_of_another_kind_are_refused(part: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{part} must be "):
        make_config(**{"env": "Pendulum-v1", part: value})


@pytest.mark.parametrize("env", [gymnasium.make("Pendulum-v1"), gymnasium.make, None])
def test_an_environment_itself_is_refused_with_what_to_give(env: Any) -> None:
    """An object has no name by which workers and a resume could make it again."""
    words = 'env must be a Gymnasium id, a function named "module:function" or EnvConfig(...), not '
    with pytest.raises(InputError, match=re.escape(words + repr(env))):
        make_config(env)


def test_configs_made_by_hand_get_the_types_of_their_settings(tmp_path: Path) -> None:
    """A whole number for a float would be a constant of the program before a resume, and an
    argument after it."""
    by_hand = TrainConfig(
        EnvConfig("Pendulum-v1"),
        SacConfig(hidden_sizes=[8, 8]),  # type: ignore[arg-type]
        LfiwConfig(temperature=5, warmup_env_steps=1e5),  # type: ignore[arg-type]
        seeds=range(2),  # type: ignore[arg-type]
    )
    config = conformed(by_hand)
    assert config == config_from_json(json.loads(json.dumps(to_json(config))))
    assert [type(value) for _, _, value in walk(config)] == [
        type(value) for _, _, value in walk(config_from_json(to_json(config)))
    ]
    assert isinstance(config.replay.temperature, float) and config.seeds == (0, 1)
    typo = LfiwConfig(transform="powr")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"replay.transform cannot be 'powr'. Did you mean power"):
        train("Pendulum-v1", replay=typo, out=tmp_path)


def test_warm_up_that_never_ends_is_warned_of() -> None:
    config = make_config("Hopper-v5", env_steps=100_000)
    (warning,) = warnings(config)
    assert "plain uniform replay" in warning
    assert "100000" in warning
    assert warnings(replace(config, env_steps=100_001)) == []
    assert warnings(make_config("Hopper-v5", "sac", "uniform", env_steps=100_000)) == []
    (warning,) = warnings(override(config, "replay.sampling", "per"))
    assert "plain per replay" in warning


def test_learning_that_never_starts_is_warned_of() -> None:
    config = make_config("Hopper-v5", "sac", "uniform", env_steps=5000)
    (warning,) = warnings(config)
    assert "nothing will be learned" in warning
    assert warnings(replace(config, env_steps=5001)) == []


def test_a_config_of_before_the_floor_is_read_as_it_was_meant() -> None:
    """As stored when LFIW had no floor and `sampling` chose between uniform replay and PER."""
    config = make_config(
        "Hopper-v5", "sac", "lfiw", **{"replay.over": "per", "replay.over.alpha": 0.7}
    )
    stored = to_json(config)
    stored["replay"] |= {"sampling": "per", "per": stored["replay"].pop("over")}
    del stored["replay"]["min_effective_sample_size"], stored["replay"]["per"]["name"]
    assert config_from_json(stored).replay == replace(config.replay, min_effective_sample_size=0.0)
    stored["replay"]["sampling"] = "uniform"
    assert config_from_json(stored).replay.over == UniformConfig()


def test_the_old_names_of_settings_work() -> None:
    config = make_config("Hopper-v5", "sac", "lfiw", "paper", **{"replay.sampling": "per"})
    assert config.replay.over == PerConfig.paper()
    assert override(config, "replay.per.alpha", "0.7").replay.over.alpha == 0.7


def test_lfiw_wraps_any_strategy_but_itself() -> None:
    names = {name: kinds for name, _, kinds, _ in parts(make_config("Hopper-v5").replay)}
    assert names == {"over": [name for name in REPLAYS if name != "lfiw"]}
    with pytest.raises(InputError, match=r"Unknown replay.over 'lfiw'"):
        make_config("Hopper-v5", **{"replay.over": "lfiw"})


def test_a_part_that_is_none_of_its_kinds_is_refused() -> None:
    with pytest.raises(InputError, match=r"over must be UniformConfig\(...\) or PerConfig"):
        make_config("Hopper-v5", "sac", LfiwConfig(over=LfiwConfig()))
