"""The registry of agents: the type of the config picks the factory."""

from collections.abc import Callable
from typing import Any

from lfiw.agents.base import Agent
from lfiw.agents.sac import SacConfig, make_sac
from lfiw.agents.td3 import Td3Config, make_td3
from lfiw.types import EnvSpec

__all__ = ["AGENTS", "Agent", "make_agent"]

AGENTS: dict[type[Any], Callable[[Any, EnvSpec, int], Agent]] = {
    SacConfig: make_sac,
    Td3Config: make_td3,
}


def make_agent(config: Any, spec: EnvSpec, batch_size: int) -> Agent:
    return AGENTS[type(config)](config, spec, batch_size)
