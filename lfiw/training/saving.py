"""What a checkpoint holds: everything that an exact resume of a method needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lfiw.acting.episodes import Episode
from lfiw.acting.networks import below
from lfiw.acting.rollout import RunnerState
from lfiw.errors import Damaged
from lfiw.learning.team import Arrays, Calls
from lfiw.runs.checkpoint import Checkpoint, checkpoint_name, save_checkpoint
from lfiw.training.phase import Phase, Position

ENDED_ACTIONS = "ended_episode.actions"
NO_PHASE: dict[str, Any] = {"episodes": None, "faults": None}  # the facts between two phases


class Best(NamedTuple):
    """The best evaluation of a run, and the policy that it was of."""

    return_mean: float
    policy: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Saved:
    """The state of a method in training; lists are by run."""

    position: Position
    next_snapshot: int
    log: Mapping[str, Any]  # its length and hash, and the seconds so far
    runners: Sequence[RunnerState]
    segments: Sequence[Mapping[str, Any]]  # lengths and hashes of the files of rows
    learners: Sequence[Arrays]
    phase: Phase | None  # None between two phases
    calls: Calls  # metrics of the phase's calls
    stopped: Mapping[int, str]  # runs that were given up, and why
    ended: Mapping[int, str]  # runs that were ended on purpose, and why
    best: Mapping[int, Best]
    config_file: Mapping[str, Any]


def save(folder: Path, seeds: Sequence[int], saved: Saved) -> None:
    """Commit a checkpoint."""
    names = [str(seed) for seed in seeds]
    phase = saved.phase
    facts = {
        **saved.position._asdict(),
        "next_snapshot": saved.next_snapshot,
        **saved.log,
        "runners": {n: runner.facts for n, runner in zip(names, saved.runners, strict=True)},
        "segments": dict(zip(names, saved.segments, strict=True)),
        **({"episodes": phase.episodes, "faults": phase.faults} if phase else NO_PHASE),
        "stopped": {names[run]: reason for run, reason in saved.stopped.items()},
        "ended": {names[run]: reason for run, reason in saved.ended.items()},
        "best": {names[run]: best.return_mean for run, best in saved.best.items()},
        "config": saved.config_file,
    }
    files = {
        f"seed-{name}.safetensors": {
            **{f"learner.{key}": array for key, array in learner.items()},
            "episode.actions": runner.actions,
            "episode.obs": runner.obs,
            **({} if runner.ended_actions is None else {ENDED_ACTIONS: runner.ended_actions}),
            **_of_best(saved.best.get(run)),
            **_of_calls(saved.calls, run),
        }
        for run, (name, learner, runner) in enumerate(
            zip(names, saved.learners, saved.runners, strict=True)
        )
    }
    position = saved.position
    save_checkpoint(folder, checkpoint_name(position.env_steps, position.updates), facts, files)


def load(checkpoint: Checkpoint, seeds: Sequence[int]) -> Saved:
    """The inverse of `save`."""
    facts = checkpoint.facts
    names = [str(seed) for seed in seeds]
    try:
        arrays = [checkpoint.arrays[f"seed-{name}.safetensors"] for name in names]
        runners = [
            RunnerState(
                facts["runners"][name],
                own["episode.actions"],
                own["episode.obs"],
                own.get(ENDED_ACTIONS),  # older ones have none
            )
            for name, own in zip(names, arrays, strict=True)
        ]
    except KeyError as missing:
        raise Damaged(f"{checkpoint.path} holds no {missing}.") from None
    phase = None
    if facts["episodes"] is not None:
        episodes = [[Episode(*episode) for episode in own] for own in facts["episodes"]]
        phase = Phase(episodes, facts["faults"])
    return Saved(
        position=Position(facts["env_steps"], facts["updates"], facts["phase_start"]),
        next_snapshot=facts["next_snapshot"],
        log={name: facts[name] for name in ("log_bytes", "log_sha256", "wall_seconds")},
        runners=runners,
        segments=[facts["segments"][name] for name in names],
        learners=[below(own, "learner") for own in arrays],
        phase=phase,
        calls=_calls_of(arrays),
        stopped={names.index(name): reason for name, reason in facts["stopped"].items()},
        ended={names.index(name): reason for name, reason in facts.get("ended", {}).items()},
        best={
            names.index(name): Best(return_mean, below(arrays[names.index(name)], "best"))
            for name, return_mean in facts.get("best", {}).items()
        },
        config_file=facts["config"],
    )


def _of_best(best: Best | None) -> Arrays:
    return {f"best.{name}": array for name, array in best.policy.items()} if best else {}


def _of_calls(calls: Calls, run: int) -> Arrays:
    return {
        f"phase.{index}.{name}": array
        for index, call in enumerate(calls)
        for name, array in call[run].items()
    }


def _calls_of(runs: Sequence[Arrays]) -> Calls:
    count = len({name.split(".")[1] for name in runs[0] if name.startswith("phase.")})
    return [[below(own, f"phase.{index}") for own in runs] for index in range(count)]
