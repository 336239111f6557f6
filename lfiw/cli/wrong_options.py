"""Wrong options of a command get one sentence: tyro would draw a box of many lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

from lfiw.errors import InputError
from lfiw.wording import nearest

HELP = ("-h", "--help")


@dataclass(frozen=True)
class Parameter:
    """A field of a command, as the command line knows it."""

    name: str  # --num-seeds, or FOLDER where it stands by itself
    kinds: tuple[Any, ...]  # its type, or those of a union
    is_positional: bool
    is_required: bool

    @property
    def takes_many(self) -> bool:
        return any(get_origin(kind) is tuple for kind in self.kinds)


def refuse_wrong_options(prog: str, command: type[Any], given: Sequence[str]) -> None:
    """Raise an `InputError` if what follows the name of the command does not fit its fields."""
    if any(argument in HELP or argument.startswith("--tyro-") for argument in given):
        return
    hints = get_type_hints(command, include_extras=True)
    parameters = [_parameter(field, hints[field.name]) for field in fields(command)]
    options = {known.name: known for known in parameters if not known.is_positional}
    named: set[str] = set()
    values = []  # of no option
    for name, value in _pairs(prog, options, given):
        if name:
            named.add(name)
            _refuse_value(options[name], value)
        else:
            values.append(value)
    places = [known for known in parameters if known.is_positional]
    # Of several folders none may be given: the command has a sentence of its own.
    missing = [
        place.name for place in places[len(values) :] if place.is_required and not place.takes_many
    ]
    missing += [
        known.name for name, known in options.items() if known.is_required and name not in named
    ]
    if missing:
        raise InputError(f"{prog} needs {' and '.join(missing)}: see `{prog} --help`.")
    if len(values) > len(places) and not any(place.takes_many for place in places):
        raise InputError(f"{prog} does not know what {values[len(places)]!r} is for.")


def _parameter(field: Field[Any], hint: Any) -> Parameter:
    hint, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    is_positional = tyro.conf.Positional in notes
    name = f"--{field.name.replace('_', '-')}"
    if is_positional:
        shown = [note.metavar for note in notes if getattr(note, "metavar", None)]
        name = shown[0] if shown else field.name.upper()
    is_union = NoneType in get_args(hint)
    is_required = field.default is MISSING and field.default_factory is MISSING
    return Parameter(name, get_args(hint) if is_union else (hint,), is_positional, is_required)


def _pairs(
    prog: str, options: dict[str, Parameter], given: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Every option with its value, '' where it takes none; '' with what belongs to no option."""
    following = iter(given)
    for argument in following:
        if not argument.startswith("-") or argument[1:2].isdigit():
            yield "", argument
            continue
        written, is_joined, value = argument.partition("=")
        name = written.replace("_", "-")
        if name not in options:
            raise InputError(f"{prog} has no option {written!r}.{nearest(name, options)}")
        if bool not in options[name].kinds and not is_joined:
            value = next(following, "--")
            if value.startswith("--"):
                raise InputError(f"{written} needs a value.")
        yield name, value


def _refuse_value(option: Parameter, value: str) -> None:
    kind = option.kinds[0]
    if get_origin(kind) is Literal and value not in get_args(kind):
        raise InputError(f"{option.name} cannot be {value!r}.{nearest(value, get_args(kind))}")
    if kind not in (int, float) or (value == "None" and NoneType in option.kinds):
        return
    try:
        kind(value)
    except ValueError:
        sentence = f"{option.name} takes a value of type {kind.__name__}, not {value!r}."
        raise InputError(sentence) from None
