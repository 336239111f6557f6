"""The replay strategies, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lfiw.registry import Registry

if TYPE_CHECKING:
    from lfiw.replay.base import Replay, ReplayContext

REPLAYS = Registry(
    {
        "uniform": "lfiw.replay.uniform:UniformConfig:make_uniform",
        "per": "lfiw.replay.per:PerConfig:make_per",
        "ere": "lfiw.replay.ere:EreConfig:make_ere",
        "recency": "lfiw.replay.recency:RecencyConfig:make_recency",
        "inverse-age": "lfiw.replay.inverse_age:InverseAgeConfig:make_inverse_age",
        "cer": "lfiw.replay.cer:CerConfig:make_cer",
        "lap": "lfiw.replay.lap:LapConfig:make_lap",
        "pal": "lfiw.replay.pal:PalConfig:make_pal",
        "faded-per": "lfiw.replay.faded_per:FadedPerConfig:make_faded_per",
        "lfiw": "lfiw.replay.lfiw:LfiwConfig:make_lfiw",
    }
)


def make_replay(config: Any, context: ReplayContext) -> Replay:
    replay: Replay = REPLAYS.make(config, context)
    return replay
