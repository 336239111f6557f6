"""How fast environments are stepped: the collector alone, with a policy of the real size."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from lfiw.acting.collector import Collector
from lfiw.acting.spaces import probe_env
from lfiw.agents import make_agent
from lfiw.bench.result import BenchResult
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.learning.config import TrainConfig, check
from lfiw.machine import cpu_model, usable_cores
from lfiw.settings import override
from lfiw.types import EnvSpec

DISCARDED_CALLS = 1


def default_workers() -> list[int]:
    """Powers of two up to the number of cores, and that number."""
    cores = usable_cores()
    return sorted({min(2**power, cores) for power in range(cores.bit_length() + 1)})


def initial_policy(config: TrainConfig, spec: EnvSpec) -> dict[str, np.ndarray]:
    """The arrays that an untrained agent hands to the workers."""
    agent = make_agent(config.agent, spec, config.batch_size)
    arrays: dict[str, np.ndarray] = jax.device_get(agent.policy(agent.init(jax.random.key(0))))
    return arrays


class TimedCollector:
    """A collector with a backend and a number of workers, and the rates of its calls."""

    def __init__(self, env: EnvConfig, workers: int, runs: int) -> None:
        self.env, self.workers, self.runs = env, workers, runs
        self.collector = Collector(env, range(runs), workers)
        self.rates: list[float] = []

    def call(self, policy: dict[str, np.ndarray], env_steps: int) -> None:
        started = time.perf_counter()
        self.collector.collect(dict.fromkeys(range(self.runs), policy), env_steps)
        self.rates.append(self.runs * env_steps / (time.perf_counter() - started))

    def median(self) -> float:
        return statistics.median(self.rates[DISCARDED_CALLS:])


def bench_collect(
    config: TrainConfig,
    backends: Sequence[str],
    workers: Sequence[int],
    runs: int | None,
    env_steps: int,
    calls: int = 5,
) -> BenchResult:
    """Interleaved calls of `env_steps` steps of each run; by default one run per worker."""
    check(config)
    envs = [override(config, "env.backend", backend).env for backend in backends]
    if not workers or min(workers) < 0:
        raise InputError(f"--workers takes numbers of at least 0, not {list(workers)}.")
    if runs is not None and runs < max(1, *workers):
        raise InputError(f"{runs} runs cannot keep {max(workers)} workers busy; raise --runs.")
    if min(env_steps, calls) < 1:
        raise InputError("--steps and --calls must be at least 1.")
    spec, _ = probe_env(envs[0])
    policy = initial_policy(config, spec)
    collectors: list[TimedCollector] = []
    try:
        # Workers that wait for their turn sleep, so all may be open at once.
        for count, env in itertools.product(workers, envs):
            collectors.append(TimedCollector(env, count, runs or max(1, count)))
        for _ in range(DISCARDED_CALLS + calls):
            for own in collectors:
                own.call(policy, env_steps)
    finally:
        for own in collectors:
            own.collector.close()
    rows: list[dict[str, Any]] = [
        {
            "backend": own.env.backend,
            "env": own.env.id,
            "workers": own.workers,
            "runs": own.runs,
            "env_steps_per_s": own.median(),
        }
        for own in collectors
    ]
    title = f"Collecting on {cpu_model()}, {usable_cores()} cores"
    return BenchResult(title, rows, (f"policy of {config.agent.name}; workers 0: no process",))
