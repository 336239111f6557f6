"""Settings are frozen dataclasses; this module declares, parses, checks and stores them.

A field made by `setting` carries its valid range. Floats of agents and strategies, and
integers marked `traced`, are scalars of the compiled program: runs that differ in them
share it. Every other setting fixes shapes or code.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from lfiw.errors import InputError
from lfiw.wording import nearest

LARGEST_INTEGER = 2**31 - 1  # counts are int32 on the device


def setting(
    default: Any,
    meaning: str = "",
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    traced: bool = False,
) -> Any:
    """A dataclass field with what it means, in a few words, and a range, which holds for every
    element of a tuple. `dataclasses.MISSING` is no default; a dictionary is copied."""
    if isinstance(default, int) and not isinstance(default, bool) and at_most is None:
        at_most = LARGEST_INTEGER
    limits = {"above": above, "at_least": at_least, "at_most": at_most}
    metadata = {"limits": limits, "traced": traced, "meaning": meaning}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def part(
    kinds: Callable[[], Mapping[str, type[Any]]], default: Callable[[], Any], meaning: str = ""
) -> Any:
    """A dataclass field that is a config of its own: one of several kinds, chosen by name."""
    return dataclasses.field(default_factory=default, metadata={"kinds": kinds, "meaning": meaning})


def pick(name: str, registry: Mapping[str, Any], what: str) -> Any:
    """The registry's entry, or a sentence with the nearest valid name."""
    if name not in registry:
        raise InputError(f"Unknown {what} {name!r}.{nearest(name, registry)}")
    return registry[name]


def walk(config: Any, prefix: str = "") -> Iterator[tuple[str, dataclasses.Field[Any], Any]]:
    """Dotted name, field and value of every setting below a config."""
    for entry in dataclasses.fields(config):
        value = getattr(config, entry.name)
        if dataclasses.is_dataclass(value):
            yield from walk(value, f"{prefix}{entry.name}.")
        else:
            yield prefix + entry.name, entry, value


def check_parts(config: Any) -> None:
    """Raise one sentence for the first part that is none of its kinds."""
    for entry in dataclasses.fields(config):
        value = getattr(config, entry.name)
        if choose := entry.metadata.get("kinds"):
            known = list(choose().values())
            if type(value) not in known:
                names = " or ".join(f"{kind.__name__}(...)" for kind in known)
                raise InputError(f"{entry.name} must be {names}, not {value!r}.")
            check_parts(value)


def parts(config: Any, prefix: str = "") -> Iterator[tuple[str, str, list[str], str]]:
    """Dotted name, chosen kind, all kinds and meaning of every part that is chosen by name."""
    for entry in dataclasses.fields(config):
        value = getattr(config, entry.name)
        if choose := entry.metadata.get("kinds"):
            yield prefix + entry.name, value.name, list(choose()), entry.metadata["meaning"]
        if dataclasses.is_dataclass(value):
            yield from parts(value, f"{prefix}{entry.name}.")


def check_ranges(config: Any) -> None:
    """Raise one sentence for the first value out of its range."""
    for name, entry, value in walk(config):
        limits = entry.metadata.get("limits")
        if limits is None or value is None:
            continue
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, bool) or not isinstance(number, int | float):
                continue
            _check_number(name, number, **limits)


def range_text(owner: type[Any], entry: dataclasses.Field[Any]) -> str:
    """The valid values of a setting, for people."""
    hint = typing.get_type_hints(owner)[entry.name]
    if get_origin(hint) is Literal:
        return " | ".join(get_args(hint))
    words = {"above": ">", "at_least": ">=", "at_most": "<="}
    limits = entry.metadata.get("limits") or {}
    given = {name: limit for name, limit in limits.items() if limit not in (None, LARGEST_INTEGER)}
    parts = [f"{words[name]} {limit:.10g}" for name, limit in given.items()]
    return " ".join([getattr(hint, "__name__", str(hint)), *parts])


def _check_number(
    name: str,
    number: float,
    above: float | None,
    at_least: float | None,
    at_most: float | None,
) -> None:
    if not math.isfinite(number):
        raise InputError(f"{name} must be finite, not {number}.")
    if above is not None and not number > above:
        raise InputError(f"{name} must be above {above:.10g}, not {number}.")
    if at_least is not None and not number >= at_least:
        raise InputError(f"{name} must be at least {at_least:.10g}, not {number}.")
    if at_most is not None and not number <= at_most:
        raise InputError(f"{name} must be at most {at_most:.10g}, not {number}.")


def has_setting(config: Any, key: str) -> bool:
    """Whether there is a dotted setting of this name; an environment takes any argument."""
    head, _, rest = key.partition(".")
    value = getattr(config, getattr(config, "OLD_NAMES", {}).get(head, head), config)
    if value is config:
        return False
    return not rest or isinstance(value, dict) or has_setting(value, rest)


def override(config: Any, key: str, value: Any, preset: str = "default") -> Any:
    """A copy of the config with one dotted setting replaced, checked against its type; text is
    parsed, and the name of a part stands for that part as in the `preset`."""

    def new_value(owner: Any, entry: dataclasses.Field[Any]) -> Any:
        if "kinds" not in entry.metadata:
            return conform(key, value, typing.get_type_hints(type(owner))[entry.name])
        kind = pick(value, entry.metadata["kinds"](), key)
        return kind.paper() if preset == "paper" else kind()

    return _replace(config, key, key, value, new_value)


def replace_unchecked(config: Any, key: str, value: Any) -> Any:
    """The same for a value that stands for one of the right type, such as a traced array."""
    return _replace(config, key, key, value, lambda owner, entry: value)


def conformed(config: Any) -> Any:
    """Every setting in its type, as it comes back from JSON; raises a sentence where it cannot
    be. A dataclass itself takes anything, and would leave `temperature=5` an integer."""
    for name, _, value in walk(config):
        config = override(config, name, value)
    return config


def _replace(
    config: Any,
    full_key: str,
    key: str,
    value: Any,
    new_value: Callable[[Any, dataclasses.Field[Any]], Any],
) -> Any:
    head, _, rest = key.partition(".")
    head = getattr(config, "OLD_NAMES", {}).get(head, head)
    entries = {entry.name: entry for entry in dataclasses.fields(config)}
    if head not in entries:
        known = [full_key.removesuffix(key) + name for name, _, _ in walk(config)]
        raise InputError(f"Unknown setting {full_key!r}.{nearest(full_key, known)}")
    current = getattr(config, head)
    if not rest:
        new = new_value(config, entries[head])
    elif isinstance(current, dict):
        new = {**current, rest: parse_literal(value)}
    elif dataclasses.is_dataclass(current):
        new = _replace(current, full_key, rest, value, new_value)
    else:
        raise InputError(f"Setting {head!r} has no part {rest!r}.")
    return dataclasses.replace(config, **{head: new})


def conform(key: str, value: Any, hint: Any) -> Any:
    """The value as the type of its setting; text is parsed, other types are refused."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if isinstance(value, str) and hint is not str:
        return parse(key, value, hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        return conform(key, value, next(kind for kind in arguments if kind is not type(None)))
    if origin is tuple and isinstance(value, Iterable) and not isinstance(value, Mapping):
        return tuple(conform(key, element, arguments[0]) for element in value)
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if isinstance(value, int) and value.bit_length() > 63:
        raise InputError(f"{key} cannot be as large as 2^63.")
    if hint is int and number and value == value // 1:
        return int(value)
    if hint is float and number:
        return float(value)
    if origin is dict and isinstance(value, dict):
        return {str(name): as_json(f"{key}.{name}", own) for name, own in value.items()}
    plain = origin if isinstance(origin, type) else hint
    if plain not in (int, float, tuple) and isinstance(plain, type) and isinstance(value, plain):
        return value
    kind = getattr(hint, "__name__", str(hint))
    raise InputError(f"{key} takes a value of type {kind}, not {value!r}.")


def as_json(key: str, value: Any) -> Any:
    """As a later command will read it: a tuple comes back as a list."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        raise InputError(
            f"{key} must be a plain value that JSON can hold, not {value!r}."
        ) from None


def parse_literal(value: Any) -> Any:
    """A value without a declared type: number, boolean, list, null, else the text itself."""
    if not isinstance(value, str):
        return value
    words = {"true": True, "false": False, "none": None, "null": None}
    if value.lower() in words:
        return words[value.lower()]
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def parse(key: str, text: str, hint: Any) -> Any:
    """Text from the command line as the type of its setting."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        if text not in arguments:
            raise InputError(f"{key} cannot be {text!r}.{nearest(text, arguments)}")
        return text
    if origin in (types.UnionType, typing.Union):
        if type(None) in arguments and text.lower() == "none":
            return None
        return parse(key, text, next(kind for kind in arguments if kind is not type(None)))
    if origin is tuple:
        parts = text.strip("()[] ").split(",")
        return tuple(parse(key, part.strip(), arguments[0]) for part in parts if part.strip())
    parsers: dict[Any, Callable[[str], Any]] = {
        bool: _parse_bool,
        int: _parse_int,
        float: float,
        str: str,
    }
    if hint not in parsers:
        raise InputError(f"{key} has parts of its own; set one of them instead.")
    try:
        return parsers[hint](text)
    except (ValueError, OverflowError):
        raise InputError(f"{key} takes a value of type {hint.__name__}, not {text!r}.") from None


def _parse_bool(text: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise ValueError
    return words[text.lower()]


def _parse_int(text: str) -> int:
    number = float(text.replace("_", ""))  # so that 1e6 and 1_000_000 are integers too
    if number != int(number):
        raise ValueError
    return int(number)


def to_json(config: Any) -> dict[str, Any]:
    """All settings as JSON, with the registered name of each agent or strategy."""
    named = {"name": config.name} if hasattr(config, "name") else {}
    values = {entry.name: getattr(config, entry.name) for entry in dataclasses.fields(config)}
    return named | {
        key: to_json(value)
        if dataclasses.is_dataclass(value)
        else list(value)
        if isinstance(value, tuple)
        else value
        for key, value in values.items()
    }


def from_json(cls: type[Any], values: dict[str, Any]) -> Any:
    """The inverse of `to_json`; raises a sentence where the values are not of this config."""
    hints = typing.get_type_hints(cls)
    kinds = {entry.name: entry.metadata.get("kinds") for entry in dataclasses.fields(cls)}
    given = {key: value for key, value in values.items() if key != "name"}
    for key in given:
        if key not in kinds:
            raise InputError(f"Unknown setting {key!r}.{nearest(key, kinds)}")
    required = {
        entry.name
        for entry in dataclasses.fields(cls)
        if entry.default is entry.default_factory is dataclasses.MISSING
    }
    if missing := required - set(given):
        raise InputError(f"{cls.__name__} lacks {sorted(missing)}.")
    for key, value in given.items():
        if choose := kinds[key]:
            if not (isinstance(value, dict) and isinstance(value.get("name"), str)):
                example = {key: {"name": next(iter(choose()))}}
                raise InputError(f"{key} has no name, such as {json.dumps(example)}.")
            given[key] = from_json(pick(value["name"], choose(), key), value)
        elif dataclasses.is_dataclass(hints[key]) and isinstance(value, dict):
            given[key] = from_json(typing.cast(type[Any], hints[key]), value)
        else:
            given[key] = conform(key, value, hints[key])
    return cls(**given)
