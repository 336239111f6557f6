"""The config.json of a method folder: what was recorded of a run.

Training reads all settings by their types (`config_from_json`); plots, reports and stored results
read a few, of files that somebody else may have made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lfiw.errors import Damaged, InputError
from lfiw.plain_files import read_plain
from lfiw.runs.files import MAX_JSON_BYTES, json_bytes, json_hash, read_json, write_json
from lfiw.runs.layout import CONFIG, parts_of

Types = dict[str, type | tuple[type, ...]]  # of entries that are there and not null

RECORD_TYPES: Types = {
    **{"versions": dict, "hardware": dict, "command": (list, str), "commit": str},
    **{"started": str, "date": str, "wall_seconds": (int, float)},
    **{"stopped_seeds": list, "earlier_runs": list},
}
EARLIER_TYPES: Types = {"seeds": list, "stopped_seeds": list, "evaluation": dict}
SETTING_TYPES: Types = {"agent": dict, "replay": dict, "env_steps": int, "schedule_env_steps": int}
ENV_TYPES: Types = {"kwargs": dict, "max_episode_steps": int}


def write_config(folder: Path, content: Mapping[str, Any]) -> None:
    """config.json with a hash of its own, by which `lfiw verify` knows it."""
    write_json(folder / CONFIG, {**content, "sha256": json_hash(content)})


def config_is_intact(folder: Path, content: Mapping[str, Any]) -> bool:
    """Byte by byte: a changed space, or 1E-5 for 1e-5, would leave the content as it was."""
    right = content.get("sha256") == json_hash(content)
    return right and read_plain(folder / CONFIG, MAX_JSON_BYTES) == json_bytes(content)


def read_config(folder: str | Path) -> dict[str, Any]:
    """The contents of config.json, or a sentence."""
    path = Path(folder) / CONFIG
    if not path.exists():
        raise InputError(f"{folder} is not a method folder: it has no config.json.")
    return read_config_file(path)


def read_config_file(path: Path) -> dict[str, Any]:
    """What was recorded of a run: its configuration, versions, hardware; or a sentence."""
    try:
        content = read_json(path)
    except Damaged as error:
        raise InputError(str(error)) from None
    if not is_configuration(content):
        raise InputError(f"{path} is not the configuration of a run.")
    return content


def read_settings(path: Path) -> dict[str, Any]:
    """What a file holds that has settings: in `config`, where a run recorded it; all of it, where
    somebody wrote it by hand."""
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file, such as {path / CONFIG}.")
    try:
        content = read_json(path)
    except Damaged as error:
        raise InputError(str(error)) from None
    settings: dict[str, Any] = content.get("config", content)
    env = settings.get("env", {}) if isinstance(settings, dict) else None
    if not isinstance(env, dict):
        raise InputError(f'{path} holds no settings, such as {{"env": {{"id": "Pendulum-v1"}}}}.')
    return content


def with_env(path: Path, settings: dict[str, Any], env_ids: Sequence[str]) -> list[dict[str, Any]]:
    """The settings as they are, or for each of these environments instead."""
    if env_ids:
        return [{**settings, "env": {**settings.get("env", {}), "id": own}} for own in env_ids]
    if not isinstance(settings.get("env", {}).get("id"), str):
        raise InputError(f"{path} names no environment: name one on the command line, ENV.")
    return [settings]


def is_configuration(content: Any) -> bool:
    """Whether there are an environment and seeds, and nothing that is read is of another type."""
    try:
        config = content["config"]
        env, seeds = config["env"], config["seeds"]
        earlier = [(run, EARLIER_TYPES) for run in content.get("earlier_runs") or ()]
        parts = ((content, RECORD_TYPES), (config, SETTING_TYPES), (env, ENV_TYPES), *earlier)
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


def seeds_of(folder: str | Path) -> list[int]:
    """All seeds of a run, those added later among them."""
    return [seed for part in parts_of(folder) for seed in read_config(part)["config"]["seeds"]]
