"""The replay strategies in torch by name, for agents whose transitions another library stores: each
the twin of the one in `lfiw.replay`, whose settings and name it has."""

from __future__ import annotations

from typing import Any

from torch import Generator

from lfiw.adapters.drawing import Draw, Order, Uniform
from lfiw.adapters.drawing_by_age import Cer, Ere, InverseAge, Recency
from lfiw.adapters.drawing_by_error import FadedPer, Lap, Pal, Per
from lfiw.errors import InputError
from lfiw.replay import REPLAYS
from lfiw.settings import check_ranges, conformed
from lfiw.types import Clock

STRATEGIES: dict[str, type[Uniform]] = {
    "uniform": Uniform,
    "per": Per,
    "ere": Ere,
    "recency": Recency,
    "inverse-age": InverseAge,
    "cer": Cer,
    "lap": Lap,
    "pal": Pal,
    "faded-per": FadedPer,
}


def strategy_kind(config: Any) -> type[Uniform]:
    """The twin of a strategy that draws."""
    if config.name not in STRATEGIES:
        raise InputError(
            f"replay={config.name!r} has no twin in torch, which other libraries need: it may be "
            f"{', '.join(STRATEGIES)}, lfiw."
        )
    return STRATEGIES[config.name]


def make_strategy(config: Any, capacity: int) -> Uniform:
    return strategy_kind(config)(config, capacity)


class Draws:
    """A strategy with the state that draws need beside its own."""

    def __init__(self, strategy: Uniform, seed: int = 0) -> None:
        self.strategy = strategy
        self.generator = Generator().manual_seed(seed)
        self.updates = 0

    def draw(self, count: int, order: Order, progress: float) -> Draw:
        """The slots of one update."""
        noise = self.strategy.noise(count, self.generator)
        draw = self.strategy.sample(noise, order, Clock(0, self.updates, progress))
        self.updates += 1
        return draw

    def state_dict(self) -> dict[str, Any]:
        """Plain tensors and numbers, which `torch.load(weights_only=True)` reads."""
        return {
            "strategy": self.strategy.state_dict(),
            "generator": self.generator.get_state(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> None:
        self.strategy.load_state_dict(state["strategy"])
        self.generator.set_state(state["generator"].cpu())
        self.updates = state["updates"]


def as_replay(replay: Any) -> Any:
    """The settings of a strategy that is given by its name or by them, checked."""
    if isinstance(replay, str):
        if replay not in REPLAYS:
            raise InputError(f"Unknown replay {replay!r}; it may be {', '.join(REPLAYS)}.")
        replay = REPLAYS[replay]()
    if type(replay) not in [REPLAYS[name] for name in REPLAYS]:
        raise InputError(
            f"A replay is named ({', '.join(REPLAYS)}) or given by its settings, such as "
            f"LapConfig(alpha=0.4), not {replay!r}."
        )
    config = conformed(replay)
    check_ranges(config)
    if config.name != "lfiw":
        strategy_kind(config)
    return config
