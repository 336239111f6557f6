"""The agents, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lfiw.registry import Registry
from lfiw.types import EnvSpec

if TYPE_CHECKING:
    from jax import Array

    from lfiw.agents.base import Agent

AGENTS = Registry(
    {
        "sac": "lfiw.agents.sac:SacConfig:make_sac",
        "td3": "lfiw.agents.td3:Td3Config:make_td3",
        "xqc": "lfiw.agents.xqc:XqcConfig:make_xqc",
    }
)


def make_agent(
    config: Any,
    spec: EnvSpec,
    batch_size: int,
    td_loss: Callable[[Array], Array] | None = None,
) -> Agent:
    """`td_loss` is what the replay strategy makes of TD errors [2, B]; none: their squares."""
    chosen = () if td_loss is None else (td_loss,)
    agent: Agent = AGENTS.make(config, spec, batch_size, *chosen)
    return agent
