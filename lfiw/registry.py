"""Kinds by name, imported when first used: so the command line lists them without jax."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any


class Registry(Mapping[str, type[Any]]):
    """The config class of each name. An entry says where that class is, and what makes the thing
    itself from a config: `module:Config:make`."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = {name: tuple(place.split(":")) for name, place in places.items()}

    def __getitem__(self, name: str) -> type[Any]:
        module, config, _ = self._places[name]
        kind: type[Any] = getattr(import_module(module), config)
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def make(self, config: Any, *arguments: Any) -> Any:
        module, _, factory = self._places[config.name]
        return getattr(import_module(module), factory)(config, *arguments)
