"""Which environment to train on: settings alone, free of gymnasium and jax."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from lfiw.settings import setting


@dataclass(frozen=True)
class EnvConfig:
    id: str  # a Gymnasium id, or an importable factory `module:function`
    kwargs: dict[str, Any] = field(default_factory=dict)
    max_episode_steps: int | None = setting(None, at_least=1)  # None: the environment's own
    backend: Literal["gymnasium", "envpool"] = "gymnasium"
