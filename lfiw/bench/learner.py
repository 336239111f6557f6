"""How fast the device learns: updates alone, from a full ring, without environments."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lfiw.acting.spaces import probe_env
from lfiw.agents import make_agent
from lfiw.bench.result import BenchResult
from lfiw.errors import InputError
from lfiw.learning.config import TrainConfig, check
from lfiw.learning.group import Group
from lfiw.learning.learner import updates_in_call
from lfiw.learning.team import Team
from lfiw.training.devices import prepare_jax
from lfiw.types import EnvSpec

FILL_ROWS = 20_000
DISCARDED_CALLS = 2


def network_flops(sizes: Sequence[int], batch: int) -> int:
    """Multiply-adds of one pass, as two operations each."""
    return 2 * batch * sum(a * b for a, b in pairwise(sizes))


def update_flops(config: TrainConfig, spec: EnvSpec) -> float:
    """Matrix products of one update; an elementwise operation costs nothing here."""
    batch, hidden = config.batch_size, config.agent.hidden_sizes
    pair = spec.obs_size + spec.action_size

    def passes(sizes: Sequence[int], rows: int) -> tuple[int, int]:
        """A forward pass, and the extra of one that is differentiated by its weights."""
        forward = network_flops(sizes, rows)
        return forward, 2 * forward - 2 * rows * sizes[0] * sizes[1]

    outputs = 2 * spec.action_size if config.agent.name == "sac" else spec.action_size
    actor, actor_back = passes((spec.obs_size, *hidden, outputs), batch)
    critic, critic_back = passes((pair, *hidden, 1), batch)
    critic_part = actor + 2 * critic + 2 * (critic + critic_back)
    critics_seen = 2 if config.agent.name == "sac" else 1
    # The policy's gradient passes through the critics to the actions, not to the observations.
    to_actions = 2 * critic - 2 * batch * spec.obs_size * hidden[0]
    actor_part = actor + actor_back + critics_seen * to_actions
    total = critic_part + actor_part / getattr(config.agent, "policy_delay", 1)
    if config.replay.name == "lfiw":
        total += sum(passes((pair, *config.replay.hidden_sizes, 1), 2 * batch))
    return total


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


class Contender:
    """A group with a filled ring, and the times of its calls."""

    def __init__(self, config: TrainConfig, spec: EnvSpec, **compiler_options: Any) -> None:
        self.config = config
        self.group = Group(config, spec, jax.devices())
        self.group.options |= compiler_options
        self.team = Team([self.group])
        period = make_agent(config.agent, spec, config.batch_size).period
        self.call_updates = updates_in_call(config, period)
        rng = np.random.default_rng(0)
        runs = len(config.seeds)
        filled = min(FILL_ROWS, config.capacity)
        rows = rng.standard_normal((runs, filled, spec.row_size), np.float32)
        self.group.add(rows)
        self.updates = 0
        self.seconds: list[float] = []

    def call(self) -> None:
        started = time.perf_counter()
        self.team.learn(self.config.env_steps, self.updates)
        jax.block_until_ready(self.group.states)
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
        contenders = [Contender(config, spec) for config in chosen]
        for _ in range(DISCARDED_CALLS + calls):
            for contender in contenders:
                contender.call()
        uniform = [c.median() for c in contenders if c.config.replay.name == "uniform"]
        for contender in contenders:
            seconds = contender.median()
            flops = runs * update_flops(contender.config, spec) / seconds
            rows.append(
                {
                    "agent": agent,
                    "replay": contender.config.replay.name,
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
