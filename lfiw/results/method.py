"""A method on one task, as it was read back: its curves, and what produced them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lfiw.errors import InputError
from lfiw.results.catalogue import ENV_STEPS, STRATEGIES, family_of, strategy_title
from lfiw.results.curves import Curves
from lfiw.runs.metrics import DIAGNOSTICS
from lfiw.wording import nearest, one_line

LISTED = {metric.name: metric.columns for metric in DIAGNOSTICS if metric.size}


@dataclass(frozen=True)
class Method:
    """One method on one task: its curves by seed, and what produced them."""

    curves: Curves  # `env` is the task: the id, and the arguments where there are some
    diagnostics: dict[str, np.ndarray]  # column -> [S, E] at the evaluations, nan where absent
    record: dict[str, Any]  # config, versions, hardware, command and what else was recorded
    source: Path

    def has(self, name: str) -> bool:
        """Whether it logged this metric."""
        return all(column in self.diagnostics for column in columns_of(name))

    def logged(self, name: str) -> np.ndarray:
        """A metric of training at the evaluations [S, E], or [S, E, size] of a list such as
        `weight_by_age`; nan where it is absent."""
        columns = columns_of(name)
        if not self.has(name):
            raise InputError(f"{self.source} has no {name}.{nearest(name, self.diagnostics)}")
        found = [self.diagnostics[column] for column in columns]
        return np.stack(found, axis=-1) if name in LISTED else found[0]

    @property
    def task(self) -> str:
        return self.curves.env

    @property
    def name(self) -> str:
        return self.curves.method

    @property
    def agent(self) -> str:
        return self.curves.agent

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.record["config"])

    @property
    def is_foreign(self) -> bool:
        """From a log of another library, which has no configuration."""
        return not self.record["config"]

    @property
    def versions(self) -> dict[str, str]:
        return self.record.get("versions") or {}

    @property
    def hardware(self) -> dict[str, Any]:
        return self.record.get("hardware") or {}

    @property
    def command(self) -> str:
        """As it is typed; empty where it was not recorded, as with the commit."""
        command = self.record.get("command") or ""
        return command if isinstance(command, str) else shlex.join(map(str, command))

    @property
    def commit(self) -> str:
        return self.record.get("commit") or ""

    @property
    def wall_seconds(self) -> float | None:
        return self.record.get("wall_seconds")

    @property
    def stopped_seeds(self) -> list[int]:
        """Those that were given up for numbers that were not finite; they have no curve."""
        runs = (self.record, *self.record.get("earlier_runs", ()))
        return sorted(seed for run in runs for seed in run.get("stopped_seeds", ()))

    @property
    def replay(self) -> str:
        """The kind of strategy, without a label."""
        return str((self.config.get("replay") or {}).get("name", ""))

    @property
    def label(self) -> str:
        if self.is_foreign:
            return ""
        return self.curves.strategy.removeprefix(self.replay).removeprefix("-")

    @property
    def title(self) -> str:
        """The name in the paper's form, such as SAC + LFIW."""
        if not (self.agent and self.replay):
            return self.name
        return method_title(self.agent, self.replay, self.label)

    @property
    def place(self) -> str:
        """The task with its agent."""
        return f"{self.agent.upper()} {self.task}".strip()

    @property
    def strategy_title(self) -> str:
        if not self.replay:
            return self.curves.strategy
        return _labelled(strategy_title(self.replay), self.label)


def columns_of(name: str) -> tuple[str, ...]:
    """Where a metric is among the diagnostics."""
    return LISTED.get(name, (name,))


def method_title(agent: str, replay: str, label: str = "") -> str:
    strategy = "" if replay == "uniform" else f" + {strategy_title(replay)}"
    plain = agent.upper() + strategy
    return _labelled(plain, label)


def _labelled(title: str, label: str) -> str:
    return f"{title} ({label})" if label else title


def cut(method: Method, env_steps: int) -> Method:
    """The method as it was after so many environment steps."""
    early = method.curves.env_steps <= env_steps
    if not early.any():
        raise InputError(
            f"{method.name} on {method.task} was first evaluated after "
            f"{method.curves.env_steps[0]:,} environment steps, not after {env_steps:,}."
        )
    return at(method, early)


def at(method: Method, chosen: np.ndarray) -> Method:
    """At the chosen evaluations alone, a mask of all."""
    return replace(
        method,
        curves=method.curves.at(method.curves.env_steps[chosen]),
        diagnostics={name: values[:, chosen] for name, values in method.diagnostics.items()},
    )


def task_name(env: dict[str, Any]) -> str:
    """The environment's id, with its arguments where it has some."""
    arguments = dict(env.get("kwargs") or {})
    if env.get("max_episode_steps") is not None:
        arguments["max_episode_steps"] = env["max_episode_steps"]
    listed = ", ".join(f"{name}={value}" for name, value in sorted(arguments.items()))
    return one_line(f"{env['id']} ({listed})" if listed else env["id"])


def order_of(method: Method) -> tuple[Any, ...]:
    def rank(name: str, known: Iterable[str]) -> tuple[int, str]:
        names = [*known]
        return (names.index(name) if name in names else len(names), name)

    family = rank(family_of(method.task), ENV_STEPS)
    if method.is_foreign:  # as they were named
        return (*family, method.task, method.agent)
    strategy = (*rank(method.replay, STRATEGIES), _by_numbers(method.label))
    return (*family, method.task, method.agent, strategy, method.name)


def _by_numbers(text: str) -> list[tuple[str, float]]:
    """A key that puts temperature=2.5 before temperature=10."""
    parts = re.findall(r"(\D*)(\d+(?:\.\d+)?)?", text)
    return [(words, float(number or 0)) for words, number in parts]
