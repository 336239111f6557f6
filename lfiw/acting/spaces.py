"""What an environment says of itself: sizes and bounds, checked once before training."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from lfiw.acting.envs import make_env
from lfiw.acting.policy import ActionScale
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.types import EnvSpec


def check_spaces(env: gymnasium.Env[Any, Any], name: str) -> tuple[EnvSpec, ActionScale]:
    """The sizes and action bounds, or one sentence about what is not supported."""
    obs_space, action_space = env.observation_space, env.action_space
    if not isinstance(obs_space, spaces.Box) or len(obs_space.shape) != 1:
        raise InputError(
            f"{name} has observations {obs_space}; only a 1-D Box is supported "
            f"(gymnasium.wrappers.FlattenObservation may help)."
        )
    if not isinstance(action_space, spaces.Box) or len(action_space.shape) != 1:
        raise InputError(f"{name} has actions {action_space}; only a 1-D Box is supported.")
    if not np.issubdtype(action_space.dtype, np.floating):
        raise InputError(f"{name} has actions of type {action_space.dtype}; floats are needed.")
    with np.errstate(over="ignore"):
        bounded = np.all(np.isfinite(action_space.high - action_space.low))
    if not bounded:
        raise InputError(
            f"{name} has unbounded actions {action_space}; bound them, for instance with "
            f"gymnasium.wrappers.RescaleAction."
        )
    if not np.all(action_space.low < action_space.high):
        raise InputError(f"{name} has an empty range of actions {action_space}.")
    spec = EnvSpec(obs_size=math.prod(obs_space.shape), action_size=math.prod(action_space.shape))
    if spec.obs_size == 0 or spec.action_size == 0:
        raise InputError(f"{name} has empty observations or actions.")
    return spec, ActionScale(action_space.low, action_space.high)


def probe_env(config: EnvConfig) -> tuple[EnvSpec, ActionScale]:
    """Make the environment once, step it once, and check what it says of itself."""
    env = make_env(config)
    try:
        spec, scale = check_spaces(env, config.id)
        _probe_step(env, config.id, spec, scale)
    finally:
        env.close()
    return spec, scale


def _probe_step(env: gymnasium.Env[Any, Any], name: str, spec: EnvSpec, scale: ActionScale) -> None:
    try:
        reset = env.reset(seed=0)
        if not (isinstance(reset, tuple) and len(reset) == 2):
            raise InputError(f"{name}: reset() must return (observation, info).")
        step: Any = env.step(scale.to_env(np.zeros(spec.action_size, np.float32)))
        if not (isinstance(step, tuple) and len(step) == 5):
            raise InputError(
                f"{name}: step() must return 5 values (observation, reward, terminated, "
                f"truncated, info), as in Gymnasium."
            )
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{name} cannot be stepped: {type(error).__name__}: {reason}") from error
    for obs in (reset[0], step[0]):
        if np.shape(obs) != (spec.obs_size,):
            raise InputError(
                f"{name} returned an observation of shape {np.shape(obs)} where its space "
                f"says {(spec.obs_size,)}."
            )
    if np.ndim(step[1]) != 0 and np.size(step[1]) != 1:
        raise InputError(f"{name} returned a reward of shape {np.shape(step[1])}, not a number.")
