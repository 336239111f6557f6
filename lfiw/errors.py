"""The error that users see as one sentence instead of a traceback."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """The user's input cannot be used; the message says which value and what to do."""


class NothingYet(InputError):
    """A run has no evaluation so far; others may be shown without it."""


class RunError(RuntimeError):
    """Something failed while running; the message says what and where."""


class Damaged(RunError):
    """A file of a run folder is not what was written there."""


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
