"""The configuration of one method on one environment, its presets and its checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from lfiw.agents import AGENTS
from lfiw.agents.sac import SacConfig
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.older import modern
from lfiw.registry import Registry
from lfiw.replay import REPLAYS
from lfiw.replay.lfiw import LfiwConfig
from lfiw.settings import (
    LARGEST_INTEGER,
    check_parts,
    check_ranges,
    from_json,
    override,
    part,
    pick,
    setting,
)


@dataclass(frozen=True)
class CheckpointConfig:
    """When a run is saved besides at its end and on a signal; never changes its bits."""

    every_env_steps: int | None = setting(
        None, "steps after which a run is saved", at_least=1, at_most=LARGEST_INTEGER
    )
    every_minutes: float | None = setting(5.0, "minutes after which a run is saved", above=0)


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides the bits of a method's runs. Defaults: the `default` preset."""

    env: EnvConfig  # a Gymnasium id, or a function, with its arguments
    agent: Any = part(lambda: AGENTS, SacConfig, "the agent")
    replay: Any = part(lambda: REPLAYS, LfiwConfig, "the replay strategy")
    seeds: tuple[int, ...] = setting((0,), "one run for each; all different", at_least=0)
    env_steps: int = setting(1_000_000, "environment steps of each run", at_least=1)
    # paper, Tables 2 and 3; |slow|
    batch_size: int = setting(256, "transitions in an update", at_least=1)
    buffer_size: int = setting(
        1_000_000, "capacity of the memory; a shorter run takes env_steps slots", at_least=1
    )
    phase_env_steps: int = setting(200, "steps collected between two phases of updates", at_least=1)
    updates_per_env_step: float = setting(
        1.0, "updates for each step past learning_starts", above=0, at_most=1000
    )
    random_env_steps: int = setting(5_000, "first steps, with uniform actions", at_least=0)
    learning_starts: int = setting(5_000, "steps before the first update", at_least=1)
    schedule_env_steps: int | None = setting(
        None, "horizon of annealed settings; none: env_steps", at_least=1, at_most=LARGEST_INTEGER
    )
    updates_per_call: int = setting(
        100, "most updates in one compiled call; at least one cycle of the agent", at_least=1
    )
    eval_every_env_steps: int = setting(10_000, "steps between evaluations", at_least=1)
    eval_episodes: int = setting(5, "episodes of an evaluation", at_least=1)
    # Fixed: as in older versions.
    eval_starts: Literal["varied", "fixed"] = setting(
        "varied", "whether every evaluation has reset seeds of its own, or all the same"
    )
    stop_at_return: float | None = setting(
        None, "a run ends when the mean return of an evaluation reaches it"
    )
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)  # when it is saved
    matmul_precision: Literal["default", "high", "highest"] = setting(
        "default", "of matrix products on the device"
    )
    deterministic: bool = setting(False, "on a GPU: the same bits again; slower")

    def __post_init__(self) -> None:
        if not isinstance(self.env, EnvConfig):
            raise InputError(
                'env must be a Gymnasium id, a function named "module:function" or EnvConfig(...), '
                f"not {self.env!r}."
            )
        check_parts(self)

    @classmethod
    def paper(cls, **settings: Any) -> TrainConfig:
        """rlkit's loop: its first steps come from the initial policy."""
        return cls(phase_env_steps=1000, random_env_steps=0, learning_starts=1000, **settings)

    @property
    def schedule_horizon(self) -> int:
        return self.env_steps if self.schedule_env_steps is None else self.schedule_env_steps

    @property
    def capacity(self) -> int:
        """Slots that can ever be filled, so that a short run takes little memory."""
        return min(self.buffer_size, self.env_steps)

    @property
    def method(self) -> str:
        return f"{self.agent.name}-{self.replay.name}"


PRESETS = ("default", "paper")


def make_config(
    env: str | EnvConfig,
    agent: Any = "sac",
    replay: Any = "lfiw",
    preset: str = "default",
    **settings: Any,
) -> TrainConfig:
    """A configuration by names or configs.

    Args:
        env: A Gymnasium id, a function `"module:function"`, or an `EnvConfig`.
        agent: A name or a config.
        replay: A name or a config.
        preset: `"default"`, or `"paper"`; configs that are given stay as they are.
        **settings: Those of `TrainConfig`, with dotted names for those of its parts.

    >>> lfiw.make_config("Hopper-v5", "sac", "lfiw", env_steps=300_000, **{"agent.gamma": 0.98})
    """
    pick(preset, dict.fromkeys(PRESETS), "preset")

    def chosen(value: Any, registry: Registry, what: str) -> Any:
        if not isinstance(value, str):
            return value
        kind = pick(value, registry, what)
        return kind.paper() if preset == "paper" else kind()

    make = TrainConfig.paper if preset == "paper" else TrainConfig
    config = make(
        env=EnvConfig(env) if isinstance(env, str) else env,
        agent=chosen(agent, AGENTS, "agent"),
        replay=chosen(replay, REPLAYS, "replay strategy"),
    )
    for key, value in settings.items():
        config = override(config, key, value, preset)
    return config


def check(config: TrainConfig) -> None:
    """Raise one sentence for the first setting that cannot work."""
    check_ranges(config)
    if not config.seeds:
        raise InputError("At least one seed is needed.")
    if len(set(config.seeds)) != len(config.seeds):
        raise InputError(f"Seeds must differ from each other, not {list(config.seeds)}.")
    if max(config.seeds) >= 2**32:
        raise InputError(f"Seeds must be below 2^32, not {max(config.seeds)}.")
    if config.env_steps * config.updates_per_env_step > LARGEST_INTEGER:
        raise InputError(
            f"{config.env_steps} environment steps with {config.updates_per_env_step:g} updates "
            f"each are more updates than can be counted ({LARGEST_INTEGER})."
        )
    if config.buffer_size < config.learning_starts:
        raise InputError(
            f"buffer_size {config.buffer_size} is smaller than learning_starts "
            f"{config.learning_starts}; raise the first or lower the second."
        )
    if config.batch_size > min(config.learning_starts, config.buffer_size):
        raise InputError(
            f"batch_size {config.batch_size} is larger than the data before training starts "
            f"(learning_starts {config.learning_starts}); lower the first or raise the second."
        )
    if config.phase_env_steps > config.buffer_size:
        raise InputError(
            f"phase_env_steps {config.phase_env_steps} exceeds buffer_size {config.buffer_size}."
        )
    for own in (config.agent, config.replay):
        if hasattr(own, "check"):
            own.check(config.buffer_size)


def warnings(config: TrainConfig) -> list[str]:
    """What a user would want to know before training, though it is allowed."""
    found = []
    ends = f"{config.method} ends after {config.env_steps} environment steps"
    for own in (config.agent, config.replay):
        if hasattr(own, "warnings"):
            found += [f"{ends}, {rest}" for rest in own.warnings(config.env_steps)]
    if config.learning_starts >= config.env_steps:
        found.append(
            f"{ends}, before learning_starts {config.learning_starts}: nothing will be learned."
        )
    return found


def config_from_json(values: dict[str, Any]) -> TrainConfig:
    """The config of a method folder; raises a sentence where it is not one of ours."""
    config: TrainConfig = from_json(TrainConfig, modern(values))
    return config
