"""Environments, made by their id or by a factory."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

import gymnasium

from lfiw.acting.envpool import make_envpool_env
from lfiw.acting.faults import SimulatorReset, describe
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.import_path import look_in_current_folder
from lfiw.wording import nearest


class Watched(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells `beat` of every step and reset that came back, and raises SimulatorReset for a step
    within which MuJoCo started again."""

    def __init__(self, env: gymnasium.Env[Any, Any], beat: Callable[[], None]) -> None:
        super().__init__(env)
        self._beat = beat
        beat()  # making it may have taken a while
        self._simulation: Any = None
        if hasattr(getattr(env.unwrapped, "data", None), "warning"):
            self._simulation = env.unwrapped

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self._beat()
        if self._simulation is not None:
            self._notice_reset(self._simulation.data.warning)
        return result

    def reset(self, **options: Any) -> Any:
        result = self.env.reset(**options)
        self._beat()
        return result

    def _notice_reset(self, warning: Any) -> None:
        counts = warning.number
        if not counts.any():
            return
        kinds = sys.modules["mujoco"].mjtWarning
        for kind in (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC):
            if counts[kind]:
                counts[kind] = 0
                raise SimulatorReset(f"MuJoCo reset itself ({kind.name})")


def make_env(config: EnvConfig, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """The environment, or one sentence about why there is none."""
    # Pictures come from Gymnasium's environment of the same task.
    on_envpool = config.backend == "envpool" and render_mode is None
    env = make_envpool_env(config) if on_envpool else _make_gymnasium_env(config, render_mode)
    if config.max_episode_steps is not None:
        env = gymnasium.wrappers.TimeLimit(env, config.max_episode_steps)
    return env


def _make_gymnasium_env(config: EnvConfig, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    kwargs = dict(config.kwargs) | ({"render_mode": render_mode} if render_mode else {})
    try:
        factory = _find_factory(config.id)
        if factory is None:
            _check_version(config.id)
        _quieten_mujoco(config.id)
        env = gymnasium.make(config.id, **kwargs) if factory is None else factory(**kwargs)
        _quieten_mujoco(config.id)  # a factory may have been the first to import it
    except InputError:
        raise
    except gymnasium.error.UnregisteredEnv:
        raise _unknown(config.id) from None
    except Exception as error:
        if render_mode and "unexpected keyword argument 'render_mode'" in str(error):
            raise InputError(
                f"{config.id!r} cannot be recorded: its function must accept render_mode="
                f"{render_mode!r}."
            ) from error
        raise InputError(
            f"Environment {config.id!r} could not be made: {describe(error)}."
        ) from error
    if not isinstance(env, gymnasium.Env):
        raise InputError(f"{config.id!r} made a {type(env).__name__}, not a gymnasium.Env.")
    return env


def _unknown(env_id: str) -> InputError:
    hint = nearest(env_id, list(gymnasium.registry))
    if "/" in env_id and ":" not in env_id:
        hint = f" Where a package registers it, say which: PACKAGE:{env_id}."
    return InputError(f"Unknown environment {env_id!r}.{hint}")


def _check_version(env_id: str) -> None:
    """Gymnasium would take the newest version of an id without one, and another one next year."""
    name = env_id.rpartition(":")[2]
    if name not in gymnasium.registry and not re.search(r"-v\d+$", name):
        raise _unknown(env_id)


def _quieten_mujoco(env_id: str) -> None:
    """Keep MuJoCo's warnings out of the terminal and of a log file in the current folder."""
    registered = gymnasium.registry.get(env_id)
    if registered is not None and "mujoco" in str(registered.entry_point):
        importlib.import_module("mujoco")
    if "mujoco" in sys.modules:
        sys.modules["mujoco"].set_mju_user_warning(lambda message: None)


def _find_factory(env_id: str) -> Any:
    """The function that `module:function` names; None for a Gymnasium id, which may itself
    name a module to import first (`module:Name-v0`)."""
    module_name, colon, name = env_id.partition(":")
    if not colon:
        return None
    if module_name.partition(".")[0] in sys.stdlib_module_names:
        # A configuration that somebody else made could otherwise name os:system.
        raise InputError(f"Environment {env_id!r}: Python's own modules make no environments.")
    look_in_current_folder()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not error.name or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and imports one that is not
        raise InputError(f"Environment {env_id!r}: {error}.") from None
    factory = getattr(module, name, None)
    if factory is None and name not in gymnasium.registry:
        public = [attribute for attribute in dir(module) if not attribute.startswith("_")]
        raise InputError(f"Module {module_name!r} has no {name!r}.{nearest(name, public)}")
    return factory
