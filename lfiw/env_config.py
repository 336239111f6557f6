"""Which environment to train on: settings alone, free of gymnasium and jax."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any, Literal

from lfiw.settings import setting


@dataclass(frozen=True)
class EnvConfig:
    """An environment with its arguments.

    >>> lfiw.EnvConfig("Ant-v5", {"include_cfrc_ext_in_observation": False})
    """

    id: str = setting(MISSING, "the environment: a Gymnasium id, or a function module:function")
    kwargs: dict[str, Any] = setting({}, "its arguments, each as env.kwargs.NAME")
    max_episode_steps: int | None = setting(
        None, "a time limit on top of the environment's own", at_least=1
    )
    timeout_seconds: float = setting(
        60.0, "the longest that one step or reset may take in a worker", above=0
    )
    max_faults: int = setting(
        20, "failures that a run survives within one phase or evaluation", at_least=0
    )
    backend: Literal["gymnasium", "envpool"] = setting("gymnasium", "what steps it")
    normalize_observations: bool = setting(
        False, "observations are normalised by their running mean and variance"
    )
