"""Whether the environment that a method folder names may be made here.

A configuration can name any function of any installed module, with any arguments. So it is made
only where this user began the training on this machine, which a signature in config.json tells;
where it is one of Gymnasium's own; or where the user says so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium

from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.import_path import in_method_folder
from lfiw.older import modern
from lfiw.runs.config_file import read_config, read_settings, with_env
from lfiw.runs.key import is_signed, signature
from lfiw.settings import from_json, to_json
from lfiw.wording import one_line, option

SIGNATURE = "signature"  # its entry in config.json
PURPOSE = "environment"

# What a user trusts beside what is signed: everything, or an environment that was typed.
Trust = bool | EnvConfig


def signed(env: Mapping[str, Any]) -> dict[str, str]:
    """The entry of config.json that says who began the training; none where no key can be kept."""
    made = signature(PURPOSE, _content(env))
    return {SIGNATURE: made} if made else {}


def keyless_note(env: Mapping[str, Any]) -> str:
    """What a user should know who has no key; empty where nothing is missing."""
    if is_harmless(env) or signed(env):
        return ""
    return (
        f"No private key can be kept in $XDG_STATE_HOME or ~/.local/state: what is trained on "
        f"{env['id']} will be evaluated, recorded and resumed with {option('trust_env')} only."
    )


def is_own(content: Mapping[str, Any]) -> bool:
    """Whether this user began the training on this machine."""
    return is_signed(content.get(SIGNATURE), PURPOSE, _content(content["config"]["env"]))


def _content(env: Mapping[str, Any]) -> bytes:
    return json.dumps(env, sort_keys=True).encode()


def is_harmless(env: Mapping[str, Any]) -> bool:
    """One of Gymnasium's own environments with numbers for arguments: a text could name a file."""
    registered = gymnasium.registry.get(env["id"])
    entry = registered.entry_point if registered is not None else None
    ours = isinstance(entry, str) and entry.startswith("gymnasium.")
    return ours and all(map(_is_numeric, (env.get("kwargs") or {}).values()))


def _is_numeric(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_numeric, value))
    return value is None or isinstance(value, bool | int | float)


def trusted_config(folder: str | Path, trust_env: Trust = False) -> dict[str, Any]:
    """The contents of a config.json whose environment may be made; a sentence where it may not."""
    content = read_config(folder)
    env = content["config"]["env"]
    if not (is_own(content) or _is_typed(env, trust_env)):
        refuse_strange_env(folder, env, trust_env is True)
    return content


def refuse_strange_env(source: str | Path, env: Mapping[str, Any], trust_env: bool) -> None:
    """A sentence about an environment that somebody else named, unless it is harmless or the user
    trusts it."""
    if trust_env or is_harmless(env):
        return
    warning = (
        f"{source} was not begun by you on this machine, and to make its environment runs code: "
        f"{described(env)}."
    )
    if not said_yes(one_line(warning)):
        raise InputError(f"{warning} If you trust that, give {option('trust_env')}.")


def trusted_settings(
    path: Path, env_ids: Sequence[str], trust_env: bool = False
) -> list[dict[str, Any]]:
    """The settings in a file, for its own environment or for each of these, if it may be made. What
    the user wrote is trusted: a file that is no training's, or an id with no text beside it."""
    content = read_settings(path)
    settings = modern(content["config"]) if "config" in content else content
    of_training = settings is not content or in_method_folder(path.parent)
    found = with_env(path, settings, env_ids)
    for own in found:
        typed = env_ids and all(map(_is_numeric, (own["env"].get("kwargs") or {}).values()))
        known = own is settings and "config" in content and is_own(content)
        if of_training and not (typed or known):
            refuse_strange_env(path, own["env"], trust_env)
    return found


def env_of(folder: str | Path, trust_env: Trust = False) -> EnvConfig:
    """The environment that the policies of a method folder were trained in, if it may be made."""
    config: EnvConfig = from_json(EnvConfig, trusted_config(folder, trust_env)["config"]["env"])
    return config


def late_signature(content: Mapping[str, Any], trust_env: Trust) -> dict[str, str]:
    """Of a folder that goes on: by this user, who has said that its environment is trusted."""
    env = content["config"]["env"]
    known = is_harmless(env) or is_own(content) or isinstance(trust_env, EnvConfig)
    return {} if known else signed(env)


def _is_typed(env: Mapping[str, Any], trust_env: Trust) -> bool:
    if not isinstance(trust_env, EnvConfig):
        return False
    return bool(to_json(from_json(EnvConfig, dict(env))) == to_json(trust_env))


def described(env: Mapping[str, Any]) -> str:
    """What would happen."""
    module, colon, name = env["id"].partition(":")
    arguments = env.get("kwargs") or {}
    given = f" with {json.dumps(arguments)}" if arguments else ""
    return f"it imports {module} and calls {name}{given}" if colon else f"it makes {module}{given}"


@cache
def said_yes(warning: str) -> bool:
    """Ask, where somebody can answer; once for each warning."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
        return False
    print(f"lfiw: {warning} Do you trust that? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
