"""What an experiment takes before it is started: runs, memory, and a rough time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax

from lfiw.acting.rollout import EnvRunner, close_quietly
from lfiw.acting.spaces import probe_env
from lfiw.bench.learner import update_flops
from lfiw.env_config import EnvConfig
from lfiw.learning.learner import state_bytes
from lfiw.machine import usable_cores
from lfiw.runs.read import evaluated_up_to, is_begun
from lfiw.training.devices import check_memory, choose_devices, memory_of, prepare_jax
from lfiw.training.folder import Training
from lfiw.types import EnvSpec
from lfiw.wording import count, duration

MEMORY_SHARE = 0.8  # of what is free; the rest is for programs and batches

# Assumptions of the estimate, from docs/performance.md: an H200, and cores that reach most of
# their measured peak.
GPU_STEPS_PER_SECOND = 53_000  # over many runs, where the device is the limit
GPU_STEPS_PER_SECOND_OF_A_RUN = 2000  # of few runs, where latency is
CPU_FLOP_PER_SECOND = 80e9  # of a core
CPU_SECONDS_PER_UPDATE = 3e-4  # what is no matrix product
CPU_SECONDS_TO_COMPILE = 8
TIMED_STEPS = 200
LONG_EPISODE = 1000  # steps of an evaluation episode of a policy that does not fall


class EnvFacts(NamedTuple):
    spec: EnvSpec
    step: float  # seconds on one core


@dataclass(frozen=True)
class Workload:
    """The runs that are left to train, in rounds, and what they take."""

    rounds: list[list[Training]]
    seconds: float
    platform: str
    memory_line: str  # of the largest round

    def sentence(self) -> str:
        cores = f"{usable_cores()} CPU cores" if self.platform == "cpu" else "the GPU"
        return (
            f"In {count(len(self.rounds), 'round')} on {cores}: about {duration(self.seconds)} "
            f"(a rough estimate); {self.memory_line}."
        )


def measure(pending: Sequence[Training], devices: str | None) -> Workload:
    """Raises a sentence where a run cannot fit."""
    prepare_jax()
    chosen = choose_devices(devices)
    envs = {repr(training.config.env): training.config.env for training in pending}
    facts = {name: EnvFacts(probe_env(env)[0], step_seconds(env)) for name, env in envs.items()}
    sizes = {
        training.folder: len(training.config.seeds)
        * state_bytes(training.config, facts[repr(training.config.env)].spec)
        for training in pending
    }
    rounds = make_rounds(pending, sizes, int(MEMORY_SHARE * memory_of(chosen)))
    largest = max(sum(sizes[training.folder] for training in group) for group in rounds)
    return Workload(
        rounds,
        seconds=sum(estimate_seconds(group, facts, chosen) for group in rounds),
        platform=chosen[0].platform,
        memory_line=check_memory(largest, chosen),
    )


def step_seconds(env: EnvConfig) -> float:
    """Of one step on one core, with random actions."""
    runner = EnvRunner(env, seed=0)
    started = time.perf_counter()
    runner.collect(None, TIMED_STEPS)
    seconds = (time.perf_counter() - started) / TIMED_STEPS
    close_quietly(runner.env)
    return seconds


def make_rounds(
    trainings: Sequence[Training], sizes: Mapping[Path, int], budget: int
) -> list[list[Training]]:
    """The runs of one task train side by side, as many at once as memory holds."""
    rounds: list[list[Training]] = []
    used = 0
    for training in trainings:
        size = sizes[training.folder]
        if rounds and rounds[-1][0].config.env == training.config.env and used + size <= budget:
            rounds[-1].append(training)
            used += size
        else:
            rounds.append([training])
            used = size
    return rounds


def steps_left(training: Training) -> int:
    """Environment steps of all its seeds that no evaluation has reached yet."""
    reached = evaluated_up_to(training.folder) if is_begun(training.folder) else {}
    done = max(reached.values(), default=0)
    return len(training.config.seeds) * max(0, training.config.env_steps - done)


def stepping_seconds(training: Training, step: float) -> float:
    """Of one core, for all environment steps that are left and the evaluations on the way."""
    config = training.config
    evaluations = config.eval_episodes * LONG_EPISODE / config.eval_every_env_steps
    return steps_left(training) * (1 + evaluations) * step


def estimate_seconds(
    trainings: Sequence[Training], facts: Mapping[str, EnvFacts], devices: Sequence[jax.Device]
) -> float:
    own = [facts[repr(training.config.env)] for training in trainings]
    stepping = sum(
        stepping_seconds(training, env.step) for training, env in zip(trainings, own, strict=True)
    )
    if devices[0].platform != "cpu":  # it learns while the cores step
        num_runs = sum(len(training.config.seeds) for training in trainings)
        rate = min(GPU_STEPS_PER_SECOND, GPU_STEPS_PER_SECOND_OF_A_RUN * num_runs) * len(devices)
        return max(sum(map(steps_left, trainings)) / rate, stepping / usable_cores())
    learning = 0.0
    for training, env in zip(trainings, own, strict=True):
        per_update = update_flops(training.config, env.spec) / CPU_FLOP_PER_SECOND
        per_update += CPU_SECONDS_PER_UPDATE
        programs = min(len(training.config.seeds), len(devices))  # one for each device
        learning += steps_left(training) * training.config.updates_per_env_step * per_update
        learning += programs * CPU_SECONDS_TO_COMPILE
    return (learning + stepping) / len(devices)
