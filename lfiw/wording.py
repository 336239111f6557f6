"""Words and numbers as people read them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

# In the environment, so that worker processes speak as the process that started them.
COMMAND_LINE = "LFIW_COMMAND_LINE"


@contextmanager
def on_command_line() -> Iterator[None]:
    """Meanwhile sentences name the options of commands; elsewhere they name what Python takes."""
    before = os.environ.get(COMMAND_LINE)
    os.environ[COMMAND_LINE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[COMMAND_LINE]


def command(name: str) -> str:
    """Such as `lfiw resume`, or `lfiw.resume` in Python."""
    return f"lfiw {name}" if COMMAND_LINE in os.environ else f"lfiw.{name}"


def option_name(name: str) -> str:
    return f"--{name.replace('_', '-')}" if COMMAND_LINE in os.environ else name


def option(name: str, value: Any = True) -> str:
    """An option as its reader writes it: `--env-steps 9`, or `env_steps=9` in Python."""
    if COMMAND_LINE not in os.environ:
        return f"{name}={value!r}"
    return option_name(name) if value is True else f"{option_name(name)} {value}"


def assignment(name: str, value: Any) -> str:
    """A setting as its reader writes it: `--set replay.x=9`, or `**{"replay.x": 9}` in Python. The
    value N stands for a number that the reader chooses."""
    if COMMAND_LINE not in os.environ:
        shown = value if value == "N" else repr(value)
        return f'**{{"{name}": {shown}}}' if "." in name else f"{name}={shown}"
    return f"--set {name}={str(value).lower() if isinstance(value, bool) else value}"


def one_line(text: str, longest: int = 2000) -> str:
    """Without line breaks and codes to a terminal, which a hostile file might smuggle in."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain if len(plain) <= longest else f"{plain[:longest]}…"


def no_formula(cell: Any) -> Any:
    """A cell of a CSV file; text that a spreadsheet would run becomes text by the usual mark."""
    is_formula = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{cell}" if is_formula else cell


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint such as ' Did you mean lfiw?', or the list of valid names."""
    known = sorted(known)
    lowered = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    if matches:
        return f" Did you mean {lowered[matches[0]]}?"
    return f" Valid names: {', '.join(known)}." if len(known) <= 40 else ""


def count(number: int, noun: str) -> str:
    """Such as '1 run' or '2 runs'."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def short_count(number: int) -> str:
    """Such as '9,999', '12.5k' or '1.25M'."""
    if number < 10_000:
        return f"{number:,}"
    if number < 1_000_000:
        return f"{number / 1e3:.4g}k"
    return f"{number / 1e6:.4g}M"


def duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


def size_text(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:.2f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.1f} MB"


def deviation(values: np.ndarray) -> float | None:
    """The sample's standard deviation; of a single value there is none."""
    return float(values.std(ddof=1)) if len(values) > 1 else None


def spread(values: np.ndarray) -> str:
    """Such as '1,234 ± 56', without a deviation where there is none."""
    return mean_and_deviation(float(values.mean()), deviation(values))


def mean_and_deviation(mean: float, deviation: float | None) -> str:
    return f"{mean:,.0f}" if deviation is None else f"{mean:,.0f} ± {deviation:,.0f}"
