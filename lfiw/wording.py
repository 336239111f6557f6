"""Words and numbers as people read them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def one_line(text: str, longest: int = 2000) -> str:
    """Without line breaks and codes to a terminal, which a hostile file might smuggle in."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain if len(plain) <= longest else f"{plain[:longest]}…"


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


def duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


def size_text(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:.2f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.1f} MB"


def spread(values: np.ndarray) -> str:
    return f"{values.mean():,.0f} ± {values.std():,.0f}"
