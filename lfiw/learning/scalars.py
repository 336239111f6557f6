"""Traced settings: the scalars of a compiled program, in which its runs may differ."""

from __future__ import annotations

import dataclasses

from jax import Array

from lfiw.learning.config import TrainConfig
from lfiw.settings import replace_unchecked, walk

Scalars = dict[str, Array]


def traced_settings(config: TrainConfig) -> dict[str, float]:
    """The scalars of the compiled program: runs of one program may differ in them."""
    scalars: dict[str, float] = {"schedule_env_steps": config.schedule_horizon}
    for part in ("agent", "replay"):
        scalars |= {
            name: value
            for name, entry, value in walk(getattr(config, part), f"{part}.")
            if entry.metadata.get("traced") or isinstance(value, float)
        }
    return scalars


def program_key(config: TrainConfig) -> TrainConfig:
    """Equal for configs that share one compiled program: traced settings are blanked."""
    for name in traced_settings(config):
        config = replace_unchecked(config, name, 0)
    return dataclasses.replace(config, seeds=())


def with_scalars(config: TrainConfig, scalars: Scalars) -> TrainConfig:
    """The config with its traced settings replaced by (traced) arrays."""
    for name, value in scalars.items():
        config = replace_unchecked(config, name, value)
    return config
