"""The agents, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lfiw.registry import Registry
from lfiw.types import SQUARES, EnvSpec, TdLoss

if TYPE_CHECKING:
    from lfiw.agents.base import Agent

AGENTS = Registry(
    {
        "sac": "lfiw.agents.sac:SacConfig:make_sac",
        "td3": "lfiw.agents.td3:Td3Config:make_td3",
        "xqc": "lfiw.agents.xqc:XqcConfig:make_xqc",
        "flashsac": "lfiw.agents.flashsac:FlashSacConfig:make_flashsac",
    }
)


def make_agent(config: Any, spec: EnvSpec, batch_size: int, td_loss: TdLoss = SQUARES) -> Agent:
    agent: Agent = AGENTS.make(config, spec, batch_size, td_loss)
    return agent
