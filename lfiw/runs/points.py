"""The rows of one run's log as points of curves: their tags, thinned."""

from __future__ import annotations

from typing import Any

from lfiw.runs.metrics import tags_of

# Thins what is shown, never the log: a point for each twentieth of the steps so far, at least.
MOST_ENV_STEPS, SHARE = 5000, 20

NOT_PLOTTED = {
    *("kind", "seed", "env_steps", "updates", "wall_seconds", "episodes", "faults", "reason"),
}


class Points:
    """Of one seed, whose rows come in the order of the log."""

    def __init__(self) -> None:
        self._shown_at = -MOST_ENV_STEPS
        self._known: set[str] = set()  # what a point has shown

    def of(self, row: dict[str, Any]) -> dict[str, float]:
        """The numbers of a row by tag; none where the row is left out."""
        env_steps = row["env_steps"]
        if row["kind"] == "train":
            # The first losses of a run are shown, however short it is.
            gap = env_steps - self._shown_at
            if gap < min(MOST_ENV_STEPS, env_steps // SHARE) and row.keys() <= self._known:
                return {}
            self._shown_at = env_steps
            self._known |= row.keys()
        return {
            tag if index is None else f"{tag}_{index}": element
            for name, value in row.items()
            if name not in NOT_PLOTTED
            for tag in tags_of(name)
            for index, element in (
                enumerate(value) if isinstance(value, list) else ((None, value),)
            )
            if element is not None
        }
