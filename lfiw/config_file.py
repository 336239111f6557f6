"""What a config.json must be for commands that read single entries of it. No jax here.

Training reads all settings by their types (`config_from_json`); plots, reports and stored results
read a few, of files that somebody else may have made.
"""

from __future__ import annotations

from typing import Any

Types = dict[str, type | tuple[type, ...]]  # of entries that are there and not null

RECORD_TYPES: Types = {
    **{"versions": dict, "hardware": dict, "command": (list, str), "commit": str},
    **{"started": str, "date": str, "wall_seconds": (int, float)},
}
SETTING_TYPES: Types = {"agent": dict, "replay": dict, "env_steps": int, "schedule_env_steps": int}
ENV_TYPES: Types = {"kwargs": dict, "max_episode_steps": int}


def is_configuration(content: Any) -> bool:
    """Whether there are an environment and seeds, and nothing that is read is of another type."""
    try:
        config = content["config"]
        env, seeds = config["env"], config["seeds"]
        parts = ((content, RECORD_TYPES), (config, SETTING_TYPES), (env, ENV_TYPES))
        return (
            isinstance(env["id"], str)
            and isinstance(seeds, list)
            and all(type(seed) is int for seed in seeds)
            and all(fits(part, types) for part, types in parts)
        )
    except (KeyError, TypeError, AttributeError):
        return False


def fits(part: dict[str, Any], types: Types) -> bool:
    return all(part.get(name) is None or isinstance(part[name], types[name]) for name in types)
