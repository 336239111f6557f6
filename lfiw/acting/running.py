"""Running statistics that an environment keeps by itself, as normalising wrappers do.

Every process has its own environments, so evaluation, a resumed run and a deployed policy would
meet other statistics than training, without a word. Such an environment is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np

from lfiw.acting.policy import ActionScale
from lfiw.errors import InputError
from lfiw.wording import assignment

NAMES = re.compile(
    r"rms$|running_?(mean|var|std|stat)|normali[sz]er$|(^|_)(mean|var|variance|std)$"
)
KINDS = re.compile(r"running_?(mean|var|std|stat)|normali[sz]er$|welford", re.IGNORECASE)
OF_REWARDS = re.compile(r"rew|ret", re.IGNORECASE)


def refuse_running_statistics(env: gymnasium.Env[Any, Any], name: str, scale: ActionScale) -> None:
    """One sentence where statistics outlive an episode: with another one in between, a reset to
    the same seed finds others. Those that stand still, or begin anew with each episode, do no
    harm."""
    if not list(_statistics(env)):
        return
    env.reset(seed=0)
    before = dict(_statistics(env))
    env.reset(seed=1)
    env.step(scale.to_env(np.full(scale.low.shape, 0.5, np.float32)))
    env.reset(seed=0)
    running = [where for where, content in _statistics(env) if content != before.get(where)]
    if not running:
        return
    of_rewards = [where for where in running if OF_REWARDS.search(where)]
    remedies = []
    if len(of_rewards) < len(running):
        wanted = assignment("env.normalize_observations", True)
        remedies.append(f"normalise observations with {wanted}")
    if of_rewards:
        remedies.append("scale rewards by a constant (gymnasium.wrappers.TransformReward)")
    raise InputError(
        f"{name} keeps running statistics of its own ({', '.join(running)}), and evaluation, a "
        f"resumed run and a saved policy would have others: take that wrapper out and "
        f"{' and '.join(remedies)}."
    )


def _statistics(env: Any) -> Iterator[tuple[str, object]]:
    """`CLASS.ATTRIBUTE` and content of what looks like statistics in an environment, its wrappers
    and the environments that it holds."""
    waiting, seen = [env], set()
    while waiting:
        layer = waiting.pop()
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        for name, value in getattr(layer, "__dict__", {}).items():
            parts = value if isinstance(value, list | tuple) else [value]
            held = [part for part in parts if _is_environment(part)]
            waiting += held
            if held:
                continue
            if NAMES.search(name) or KINDS.search(type(value).__name__):
                yield f"{type(layer).__name__}.{name}", _content(value)


def _is_environment(value: Any) -> bool:
    """Of Gymnasium or of another library, alone or a vector of them."""
    return all(callable(getattr(type(value), method, None)) for method in ("reset", "step"))


def _content(value: Any, depth: int = 3) -> object:
    """What can be compared of statistics: their numbers, however they are nested."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    own = value if isinstance(value, Mapping) else getattr(value, "__dict__", None)
    if own and depth:
        return {str(name): _content(part, depth - 1) for name, part in own.items()}
    return repr(value)
