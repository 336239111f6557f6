"""What a study searches: settings, each with an interval or with choices.

Ranges come from the declarations of the settings, or from the user, who stays within them.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from lfiw.errors import InputError
from lfiw.learning.config import TrainConfig, check
from lfiw.learning.scalars import traced_settings
from lfiw.settings import override, parse, parts, walk
from lfiw.wording import nearest

if TYPE_CHECKING:
    import optuna

# They decide what a trial's value means: trials that differ in them could not be compared.
FIXED = ("agent", "replay", "env.id", "env.backend", "seeds", "env_steps", "stop_at_return")
FIXED_PREFIXES = ("eval_", "checkpoint.")
WIDE = 10  # an interval whose ends differ by this factor is searched by orders of magnitude
SMALL, LARGE = 0.1, 0.9  # of settings between 0 and 1


@dataclass(frozen=True)
class Interval:
    """A number between two ends, both among the valid values."""

    name: str
    low: float
    high: float
    integer: bool = False
    # Uniform in the value, in its logarithm, or in the logarithm of its distance to 1.
    scale: Literal["linear", "log", "log to 1"] = "linear"

    @property
    def parameter(self) -> str:
        """Its name in the study."""
        return f"1 - {self.name}" if self.scale == "log to 1" else self.name

    def suggest(self, trial: optuna.Trial) -> None:
        log = self.scale != "linear"
        if self.integer:
            trial.suggest_int(self.parameter, int(self.low), int(self.high), log=log)
        elif self.scale == "log to 1":
            trial.suggest_float(self.parameter, 1 - self.high, 1 - self.low, log=True)
        else:
            trial.suggest_float(self.parameter, self.low, self.high, log=log)

    def value(self, parameter: Any) -> Any:
        """Of the setting; it is the inverse of itself."""
        return 1 - parameter if self.scale == "log to 1" else parameter

    def contains(self, value: Any) -> bool:
        return value is not None and self.low <= value <= self.high

    def ends(self) -> Iterable[Any]:
        return self.low, self.high

    def text(self) -> str:
        return f"{self.low:g} to {self.high:g}, {self.scale}"


@dataclass(frozen=True)
class Choices:
    """One of several values."""

    name: str
    values: tuple[Any, ...]

    @property
    def parameter(self) -> str:
        return self.name

    def suggest(self, trial: optuna.Trial) -> None:
        trial.suggest_categorical(self.parameter, self.values)

    def value(self, parameter: Any) -> Any:
        return parameter

    def contains(self, value: Any) -> bool:
        return value in self.values

    def ends(self) -> Iterable[Any]:
        return self.values

    def text(self) -> str:
        return ", ".join(str(value) for value in self.values)


Searched = Interval | Choices


def make_space(
    config: TrainConfig, searches: Sequence[str], fixed: Collection[str] = ()
) -> tuple[Searched, ...]:
    """What `--search NAME[=RANGE]` asks for, or else the default: every float of the agent and of
    the strategy that is traced, so that all trials share one program, unless it is `fixed` or its
    default is an end of its valid range."""
    if searches:
        space = tuple(parse_search(config, search) for search in searches)
    else:
        space = tuple(
            derived(config, name)
            for name, entry, value in walk(config)
            if name in traced_settings(config) and isinstance(value, float)
            if name not in fixed and value not in (0, *entry.metadata["limits"].values())
        )
    if not space:
        raise InputError("There is nothing to search: name settings with --search NAME=LOW:HIGH.")
    names = [searched.name for searched in space]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--search names {name} twice.")
        if name in fixed:
            raise InputError(f"{name} is both set and searched: leave out one of the two.")
    for searched in space:
        for value in searched.ends():
            check(override(config, searched.name, value))
    return space


def parse_search(config: TrainConfig, search: str) -> Searched:
    """`NAME=LOW:HIGH`, `NAME=VALUE,VALUE...`, or `NAME` alone for the range of its declaration."""
    name, equals, text = (part.strip() for part in search.partition("="))
    if name in FIXED or name.startswith(FIXED_PREFIXES):
        raise InputError(f"{name} cannot be searched: trials that differ in it are no rivals.")
    if not equals:
        return derived(config, name)
    kind = type_of(config, name)
    low, colon, high = text.partition(":")
    if colon and kind in (int, float):
        return interval(config, name, parse(name, low, kind), parse(name, high, kind))
    values = [part.strip() for part in text.split(",") if part.strip()]
    if colon or len(set(values)) < 2 or len(set(values)) < len(values):
        numbers = " or NAME=LOW:HIGH" if kind in (int, float) else ""
        raise InputError(f"--search takes NAME=VALUE,VALUE...{numbers}, not {search!r}.")
    if name in kinds_of(config):
        return Choices(name, tuple(values))
    return Choices(name, tuple(value_of(override(config, name, value), name) for value in values))


def derived(config: TrainConfig, name: str) -> Searched:
    """The range that follows from a setting's declaration and its value."""
    kind = type_of(config, name)
    if name in (kinds := kinds_of(config)):
        return Choices(name, tuple(kinds[name]))
    if kind is bool:
        return Choices(name, (False, True))
    if get_origin(kind) is Literal:
        return Choices(name, get_args(kind))
    _, entry, value = next(found for found in walk(config) if found[0] == name)
    if kind not in (int, float) or not value or value < 0:
        raise InputError(
            f"No range follows from the value {value} of {name}: name one, "
            f"--search {name}=LOW:HIGH."
        )
    limits = entry.metadata["limits"]
    low, high = around(value, **limits)
    if kind is int:
        return interval(config, name, round(low), round(high))
    return interval(config, name, short(low), short(high))


def around(
    value: float, above: float | None, at_least: float | None, at_most: float | None
) -> tuple[float, float]:
    """From a tenth of the value to ten times it, within the valid range. A value near 1, where 1 is
    the most, has a tenth of its distance and ten times that; one in the middle has all."""
    if at_most == 1 and LARGE < value < 1:
        return 1 - WIDE * (1 - value), 1 - (1 - value) / WIDE
    least = -float("inf") if at_least is None else at_least
    most = float("inf") if at_most is None else at_most
    if most <= 1 and value > SMALL:
        return (value / WIDE if at_least is None else at_least), most
    return max(value / WIDE, least), min(value * WIDE, most)


def interval(config: TrainConfig, name: str, low: float, high: float) -> Interval:
    """With the scale that its ends ask for."""
    if not low < high:
        raise InputError(f"--search {name}={low}:{high} needs a lower end below the upper one.")
    integer = isinstance(low, int)
    if low > 0 and high >= WIDE * low:
        return Interval(name, low, high, integer, "log")
    _, entry, _ = next(found for found in walk(config) if found[0] == name)
    ends_at_one = (entry.metadata.get("limits") or {}).get("at_most") == 1
    # Compared with some slack: 1 - 0.9 is not exactly ten times 1 - 0.99.
    if ends_at_one and high < 1 and (1 - low) > (WIDE - 1e-6) * (1 - high) and not integer:
        return Interval(name, low, high, scale="log to 1")
    return Interval(name, low, high, integer)


def short(number: float) -> float:
    """Without the last digits, which rounding makes: 1 - 10 * (1 - 0.99) is 0.9."""
    return float(f"{number:.6g}")


def kinds_of(config: TrainConfig) -> dict[str, list[str]]:
    """The parts that are chosen by name, below the agent and the strategy."""
    return {name: kinds for name, _, kinds, _ in parts(config)}


def type_of(config: TrainConfig, name: str) -> Any:
    """The type of a setting, of an optional one without None; a sentence where it has several
    values itself or there is none of this name."""
    if name in kinds_of(config):
        return str
    known = {found: entry for found, entry, _ in walk(config)}
    if name not in known:
        raise InputError(f"Unknown setting {name!r}.{nearest(name, [*known, *kinds_of(config)])}")
    owner, field = owner_of(config, name)
    hint = typing.get_type_hints(type(owner))[field]
    if get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
    if get_origin(hint) in (tuple, dict):
        raise InputError(f"{name} has several values itself and cannot be searched.")
    return hint


def owner_of(config: TrainConfig, name: str) -> tuple[Any, str]:
    """The config that holds a setting, and its field there."""
    *path, field = name.split(".")
    return functools.reduce(getattr, path, config), field


def value_of(config: TrainConfig, name: str) -> Any:
    owner, field = owner_of(config, name)
    return getattr(owner, field)


def start_of(config: TrainConfig, space: Sequence[Searched]) -> dict[str, Any]:
    """The parameters of the config's own values, as far as they are in the space."""
    kinds = {name: chosen for name, chosen, _, _ in parts(config)}
    found = {}
    for searched in space:
        own = kinds.get(searched.name, value_of(config, searched.name))
        if searched.contains(own):
            found[searched.parameter] = searched.value(own)
    return found


def values_of(space: Sequence[Searched], parameters: dict[str, Any]) -> dict[str, Any]:
    """The settings that the parameters of a trial stand for."""
    return {own.name: own.value(parameters[own.parameter]) for own in space}


def config_of(
    config: TrainConfig, space: Sequence[Searched], parameters: dict[str, Any]
) -> TrainConfig:
    for name, value in values_of(space, parameters).items():
        config = override(config, name, value)
    return config
