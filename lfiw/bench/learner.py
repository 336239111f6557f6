"""How fast the device learns: updates alone, from a full ring, without environments."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lfiw.acting.spaces import probe_env
from lfiw.bench.result import BenchResult
from lfiw.errors import InputError
from lfiw.learning.config import TrainConfig, check
from lfiw.learning.learner import make_parts, updates_in_call
from lfiw.learning.team import Team
from lfiw.training.devices import prepare_jax
from lfiw.types import EnvSpec

FILL_ROWS = 20_000
DISCARDED_CALLS = 2


def update_flops(config: TrainConfig, spec: EnvSpec) -> float:
    """Matrix products of one update, two operations for each multiplication with its addition;
    what works element by element costs nothing here."""
    agent, replay = make_parts(config, spec, {})
    return 2 * config.batch_size * (agent.products + replay.products)


def measured_peak(devices: Sequence[jax.Device]) -> float:
    """Floating-point operations per second of large products on all devices together."""
    on_cpu = devices[0].platform == "cpu"  # where one device's products take all cores
    size, loops = (2048, 2) if on_cpu else (8192, 10)
    x = jax.device_put(jnp.full((size, size), 1e-3, jnp.float32), devices[0])
    step = jax.jit(lambda x: jax.lax.scan(lambda y, _: (y @ x, None), x, None, length=loops)[0])
    times = []
    for _ in range(DISCARDED_CALLS + 5):
        started = time.perf_counter()
        jax.block_until_ready(step(x))
        times.append(time.perf_counter() - started)
    one = loops * 2 * size**3 / statistics.median(times[DISCARDED_CALLS:])
    return one if on_cpu else len(devices) * one


class TimedLearner:
    """A method with filled rings, and the times of its calls."""

    def __init__(self, config: TrainConfig, spec: EnvSpec, **compiler_options: Any) -> None:
        self.config = config
        self.team = Team([config], spec, jax.devices(), **compiler_options)
        agent, _ = make_parts(config, spec, {})
        self.call_updates = updates_in_call(config, agent.period)
        shape = (len(config.seeds), min(FILL_ROWS, config.capacity), spec.row_size)
        self.team.add([np.random.default_rng(0).standard_normal(shape, np.float32)])
        self.updates = 0
        self.seconds: list[float] = []

    def call(self) -> None:
        started = time.perf_counter()
        self.team.learn(self.config.env_steps, self.updates)
        jax.block_until_ready(self.team.states)
        self.seconds.append((time.perf_counter() - started) / self.call_updates)
        self.updates += self.call_updates

    def median(self) -> float:
        return statistics.median(self.seconds[DISCARDED_CALLS:])


def bench_learner(configs: Sequence[TrainConfig], calls: int = 7) -> BenchResult:
    """Interleaved calls of all strategies of an agent and number of runs."""
    if not configs or calls < 1:
        raise InputError("--runs needs at least one number, and --calls must be at least 1.")
    for config in configs:
        check(config)
    spec, _ = probe_env(configs[0].env)
    prepare_jax()
    peak = measured_peak(jax.devices())
    rows: list[dict[str, Any]] = []
    settings = {(config.agent.name, len(config.seeds)) for config in configs}
    for agent, runs in sorted(settings):
        chosen = [c for c in configs if (c.agent.name, len(c.seeds)) == (agent, runs)]
        learners = [TimedLearner(config, spec) for config in chosen]
        for _ in range(DISCARDED_CALLS + calls):
            for learner in learners:
                learner.call()
        uniform = [own.median() for own in learners if own.config.replay.name == "uniform"]
        for learner in learners:
            seconds = learner.median()
            flops = runs * update_flops(learner.config, spec) / seconds
            rows.append(
                {
                    "agent": agent,
                    "replay": learner.config.replay.name,
                    "runs": runs,
                    "ms_per_update": seconds * 1e3,
                    "run_updates_per_s": runs / seconds,
                    "ratio_to_uniform": seconds / uniform[0] if uniform else None,
                    "gflop_per_s": flops / 1e9,
                    "share_of_peak": flops / peak,
                }
            )
    title = f"Learner on {jax.devices()[0].device_kind}, {configs[0].env.id}"
    return BenchResult(title, rows, (f"measured peak: {peak / 1e9:,.0f} GFLOP/s",))
