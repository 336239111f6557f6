"""What goes wrong with environments and is survived, and how often it may."""

from __future__ import annotations

import traceback
from pathlib import Path

from lfiw.env_config import EnvConfig
from lfiw.errors import RunError


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
    kind = type(error).__name__
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{kind}: {message or 'no message'} ({Path(place.filename).name}:{place.lineno})"
