"""Configurations as older versions stored them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def modern(config: Mapping[str, Any]) -> dict[str, Any]:
    """A stored configuration in today's form: all evaluations of a run had the same starts once,
    and nothing was deterministic on a GPU; LFIW had no floor, only weighted, and could wrap PER
    alone."""
    config = {"eval_starts": "fixed", "deterministic": False, **config}
    replay = config.get("replay")
    if not isinstance(replay, dict) or replay.get("name") != "lfiw":
        return config
    current = {"min_effective_sample_size": 0.0, "use": "weight", **replay}
    drawing, per = current.pop("sampling", None), current.pop("per", {})
    if drawing is not None:
        current["over"] = {"name": drawing, **(per if drawing == "per" else {})}
    return config | {"replay": current}
