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
    timeout_seconds: float = setting(60.0, above=0)  # of one step or reset, in a worker process
    max_faults: int = setting(20, at_least=0)  # survived by a run in one phase or evaluation
    backend: Literal["gymnasium", "envpool"] = "gymnasium"
