"""What goes wrong with environments and is survived, and how often it may."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

from lfiw.env_config import EnvConfig
from lfiw.errors import RunError

OURS = Path(__file__).parents[1]


class SimulatorReset(Exception):
    """The simulator met a state that it cannot go on from and started again by itself."""


class Faults:
    """The failures of one environment within one phase or one evaluation."""

    def __init__(self, config: EnvConfig) -> None:
        self._config = config
        self.reasons: list[str] = []

    def add(self, reason: str) -> None:
        """Note a failure; one more than the limit ends the run."""
        self.reasons.append(reason)
        if len(self.reasons) > self._config.max_faults:
            raise RunError(
                f"{self._config.id} failed {len(self.reasons)} times within one phase or "
                f"evaluation, more than env.max_faults {self._config.max_faults} allows; the last "
                f"time: {reason}."
            )


def describe(error: Exception) -> str:
    """An exception and where it was raised, in one line."""
    message = " ".join(str(error).split())
    place = place_of(error)
    return f"{type(error).__name__}: {message or 'no message'}" + (f" ({place})" if place else "")


def place_of(error: BaseException) -> str:
    """File and line where the user's code raised it, or called what did; of a library's where
    there is none of the user's."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
    ]
    own = [frame for frame in frames if not _is_installed(Path(frame.filename))]
    if not frames or (isinstance(error, SyntaxError) and not own):
        return ""  # the message of a syntax error names both
    place = (own or frames)[-1]
    return f"{Path(place.filename).name}:{place.lineno}"


def _is_installed(path: Path) -> bool:
    """Python's, a package's, or ours."""
    places = sysconfig.get_paths()
    folders = (places["stdlib"], places["purelib"], places["platlib"], OURS)
    return any(path.is_relative_to(folder) for folder in folders)
