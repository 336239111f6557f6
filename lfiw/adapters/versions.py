"""Libraries that only some modules need, each behind an extra of this package."""

from __future__ import annotations

import re
from importlib import metadata
from typing import NamedTuple

from lfiw.errors import InputError
from lfiw.extras import install_command


class Extra(NamedTuple):
    name: str  # in pyproject.toml
    first: str = "0.0"  # tested version
    end: str | None = None  # first version beyond the tested ones


EXTRAS = {
    "torch": Extra("torch"),
    "stable-baselines3": Extra("sb3", "2.9", "2.10"),
    "sb3-contrib": Extra("sb3", "2.9", "2.10"),
    "torchrl": Extra("torchrl", "0.14", "0.15"),
    "tianshou": Extra("tianshou", "2.0", "2.1"),
    "sbx-rl": Extra("sbx", "0.28", "0.29"),
}


def require(module: str, distribution: str) -> None:
    """Raise a sentence where a library is missing or of a version that was never tested."""
    extra = EXTRAS[distribution]
    command = install_command(extra.name)
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        raise ImportError(f"{module} needs {distribution}: {command}") from None
    if extra.end and not _minor(extra.first) <= _minor(version) < _minor(extra.end):
        raise InputError(
            f"{module} was tested with {distribution} >={extra.first},<{extra.end} and does not "
            f"take {version}: {command}"
        )


def _minor(version: str) -> tuple[int, int]:
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)
