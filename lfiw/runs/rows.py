"""The rows of metrics.jsonl."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lfiw.acting.episodes import Episode


def train_row(
    seed: int,
    env_steps: int,
    updates: int,
    calls: Sequence[Mapping[str, np.ndarray]],
    episodes: Sequence[Episode],
    faults: Sequence[str] = (),
) -> Row:
    """One phase of one run: means over its calls, and the episodes that ended in it."""
    row: Row = {"kind": "train", "seed": seed, "env_steps": env_steps, "updates": updates}
    for name in calls[0] if calls else ():
        row[name] = np.mean([call[name] for call in calls], axis=0)
    row["episodes"] = len(episodes)
    if episodes:
        row["episode_return_mean"] = float(np.mean([episode.total_reward for episode in episodes]))
        row["episode_length_mean"] = float(np.mean([episode.length for episode in episodes]))
    return row | _faults(faults)


def eval_row(
    seed: int, env_steps: int, episodes: Sequence[Episode], faults: Sequence[str] = ()
) -> Row:
    kind = "eval" if episodes else "failed eval"
    row: Row = {"kind": kind, "seed": seed, "env_steps": env_steps}
    return row | (summed_up(episodes) if episodes else {}) | _faults(faults)


def summed_up(episodes: Sequence[Episode]) -> Row:
    """What is told of evaluation episodes."""
    returns = [episode.total_reward for episode in episodes]
    return {
        "return_mean": float(np.mean(returns)),
        "return_std": float(np.std(returns)),
        "length_mean": float(np.mean([episode.length for episode in episodes])),
        "episodes": len(episodes),
    }


def stopped_row(seed: int, env_steps: int, reason: str) -> Row:
    """The last row of a run that was given up while others went on."""
    return {"kind": "stopped", "seed": seed, "env_steps": env_steps, "reason": reason}


def ended_row(seed: int, env_steps: int, reason: str) -> Row:
    """The last row of a run that was ended on purpose while others went on."""
    return {"kind": "ended", "seed": seed, "env_steps": env_steps, "reason": reason}


def warning_row(seed: int, env_steps: int, reason: str) -> Row:
    """What a user should look at; the run goes on."""
    return {"kind": "warning", "seed": seed, "env_steps": env_steps, "reason": reason}


def _faults(faults: Sequence[str]) -> Row:
    """What went wrong and was survived; a row without it went well."""
    return {"faults": list(faults)} if faults else {}


TEXTS = ("kind", "reason", "faults")  # in a row of the log; all else are numbers

Row = dict[str, Any]


def refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON.")


DECODER = json.JSONDecoder(parse_constant=refuse_constant)  # so that no float is a nan


def rounded(value: Any, digits: int = 7) -> Any:
    """Numbers short enough to read; what is not finite becomes null, as JSON demands."""
    if isinstance(value, np.ndarray) and value.ndim:
        return [rounded(element, digits) for element in value]
    if isinstance(value, float | np.floating | np.ndarray):
        number = float(value)
        return float(f"{number:.{digits}g}") if math.isfinite(number) else None
    return value


def parse_row(line: bytes) -> Row | None:
    """A row of the log, or None where the line is not one."""
    try:
        text = line.decode().strip()
        row, end = DECODER.raw_decode(text)
        vectors = row["kind"] != "eval"
        for name in ("seed", "env_steps"):
            if type(row[name]) is not int or abs(row[name]) >= 2**53:
                return None
        # Logs have millions of numbers: floats are looked at first, and all at once.
        for name, value in row.items():
            if type(value) is not float and name not in TEXTS and not is_logged(value, vectors):
                return None
        known = row.values()
        if math.inf in known or -math.inf in known or end != len(text):
            return None
        return row if isinstance(row["kind"], str) else None
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def is_logged(value: Any, vectors: bool) -> bool:
    """Whether `rounded` could have made it: a number or null, or a list of such."""
    if isinstance(value, list):
        return vectors and all(is_logged(element, vectors) for element in value)
    return value is None or (type(value) in (int, float) and math.isfinite(value))
