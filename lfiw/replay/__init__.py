"""The registry of replay strategies: the type of the config picks the factory."""

from collections.abc import Callable
from typing import Any

from lfiw.replay.base import Replay, ReplayContext
from lfiw.replay.ere import EreConfig, make_ere
from lfiw.replay.lfiw import LfiwConfig, make_lfiw
from lfiw.replay.per import PerConfig, make_per
from lfiw.replay.uniform import UniformConfig, make_uniform

__all__ = ["REPLAYS", "Replay", "ReplayContext", "make_replay"]

REPLAYS: dict[type[Any], Callable[[Any, ReplayContext], Replay]] = {
    UniformConfig: make_uniform,
    PerConfig: make_per,
    EreConfig: make_ere,
    LfiwConfig: make_lfiw,
}


def make_replay(config: Any, context: ReplayContext) -> Replay:
    return REPLAYS[type(config)](config, context)
