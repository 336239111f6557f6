"""What an environment says of itself: sizes and bounds, checked once before training."""

from __future__ import annotations

import inspect
import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from lfiw.acting.envs import make_env
from lfiw.acting.faults import describe
from lfiw.acting.policy import ActionScale
from lfiw.acting.running import refuse_running_statistics
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.types import EnvSpec
from lfiw.wording import assignment

BOUNDED_ENV = (
    "gymnasium.wrappers.TransformAction(env, lambda action: action, "
    "gymnasium.spaces.Box(-1.0, 1.0, env.action_space.shape))"
)


def check_spaces(env: gymnasium.Env[Any, Any], name: str) -> tuple[EnvSpec, ActionScale]:
    """The sizes and action bounds, or one sentence about what is not supported."""
    obs_space, action_space = env.observation_space, env.action_space
    if not isinstance(obs_space, spaces.Box) or len(obs_space.shape) != 1:
        raise InputError(
            f"{name} has observations {obs_space}; only a 1-D Box is supported "
            f"(gymnasium.wrappers.FlattenObservation may help)."
        )
    if not isinstance(action_space, spaces.Box) or len(action_space.shape) != 1:
        raise InputError(
            f"{name} has actions {action_space}; only a 1-D Box is supported"
            f"{_continuous_hint(env)}."
        )
    if not np.issubdtype(action_space.dtype, np.floating):
        raise InputError(f"{name} has actions of type {action_space.dtype}; floats are needed.")
    with np.errstate(over="ignore"):
        bounded = np.all(np.isfinite(action_space.high - action_space.low))
    if not bounded:
        raise InputError(
            f"{name} has unbounded actions {action_space}; a function `module:function` that "
            f"returns {BOUNDED_ENV} bounds them to [-1, 1]."
        )
    if not np.all(action_space.low < action_space.high):
        raise InputError(f"{name} has an empty range of actions {action_space}.")
    spec = EnvSpec(obs_size=math.prod(obs_space.shape), action_size=math.prod(action_space.shape))
    if spec.obs_size == 0 or spec.action_size == 0:
        raise InputError(f"{name} has empty observations or actions.")
    return spec, ActionScale(action_space.low, action_space.high)


def _continuous_hint(env: gymnasium.Env[Any, Any]) -> str:
    """Some environments, such as LunarLander, have both kinds of actions."""
    if not isinstance(env.action_space, spaces.Discrete):
        return ""
    if "continuous" not in inspect.signature(type(env.unwrapped).__init__).parameters:
        return ""
    return f" (made with {assignment('env.kwargs.continuous', True)} it has one)"


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
        refuse_running_statistics(env, name, scale)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{name} cannot be stepped: {describe(error)}.") from error
    for obs in (reset[0], step[0]):
        if np.shape(obs) != (spec.obs_size,):
            raise InputError(
                f"{name} returned an observation of shape {np.shape(obs)} where its space "
                f"says {(spec.obs_size,)}."
            )
    if np.ndim(step[1]) != 0:
        raise InputError(f"{name} returned a reward of shape {np.shape(step[1])}, not a number.")
