"""Small learners for the tests; compiled programs are shared by all files of a session."""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lfiw.agents.base import Agent
from lfiw.agents.flashsac import FlashSacConfig
from lfiw.agents.sac import SacConfig
from lfiw.agents.xqc import XqcConfig
from lfiw.learning.config import TrainConfig, make_config
from lfiw.learning.learner import Learner, LearnerState, learn_together, make_learner
from lfiw.learning.scalars import traced_settings
from lfiw.replay.base import Replay, ReplayContext
from lfiw.replay.ere import EreConfig
from lfiw.replay.lfiw import LfiwConfig
from lfiw.replay.per import PerConfig
from lfiw.replay.recency import RecencyConfig
from lfiw.types import Clock, EnvSpec, Metrics, Sample

# Compiles in half the time, for tests that do not ask for the bits of the optimised program.
quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})

SPEC = EnvSpec(obs_size=8, action_size=2)
CAPACITY = 50_000
BATCH = 16
STORED = 200  # rows in the ring of a filled learner
HORIZON = 1_000
MIDWAY = Clock(jnp.int32(HORIZON // 2), updates=jnp.int32(0), progress=0.5)

# With these every setting of the config has an effect within one call.
ACTIVE: dict[type[Any], dict[str, Any]] = {
    SacConfig: {"target_entropy": -1.5},
    XqcConfig: {"target_entropy": -1.5, "policy_delay": 2},
    FlashSacConfig: {"target_entropy": -1.5},
    EreConfig: {"eta": 0.98, "min_window": 4, "cycle_updates": 4},
    RecencyConfig: {"rate": 0.05},
    LfiwConfig: {
        "learning_rate": 1e-3,
        "fast_size": 20,
        "warmup_env_steps": 0,
        "over": PerConfig(),
        # Weights that differ enough at the start for the floor to bind.
        "temperature": 0.01,
        "min_effective_sample_size": 0.99,
    },
}


def small(kind: type[Any], **settings: Any) -> Any:
    """The kind's config with small networks where it has any."""
    names = {entry.name for entry in dataclasses.fields(kind)}
    sizes = {"hidden_sizes": (8,)} if "hidden_sizes" in names else {}
    return kind(**sizes | settings)


def active(kind: type[Any], **settings: Any) -> Any:
    return small(kind, **ACTIVE.get(kind, {}) | settings)


def train_config(agent: Any, replay: Any, **settings: Any) -> TrainConfig:
    """Four updates in one call."""
    defaults = {
        "env_steps": CAPACITY,
        "buffer_size": CAPACITY,
        "schedule_env_steps": HORIZON,
        "batch_size": BATCH,
        "phase_env_steps": 4,
        "updates_per_call": 4,
    }
    return make_config("none", agent=agent, replay=replay, **defaults | settings)


def as_arrays(scalars: dict[str, float]) -> dict[str, Array]:
    return {
        name: jnp.int32(value) if isinstance(value, int) else jnp.float32(value)
        for name, value in scalars.items()
    }


def random_rows(seed: int, count: int, spec: EnvSpec = SPEC) -> np.ndarray:
    """Packed transitions; one in ten terminates."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, spec.row_size), np.float32)
    action = slice(spec.obs_size, spec.obs_size + spec.action_size)
    rows[:, action] = np.tanh(rows[:, action])
    rows[:, spec.obs_size + spec.action_size + 1] = rng.random(count) > 0.1
    return rows


def make_context(spec: EnvSpec = SPEC, capacity: int = 64, **settings: Any) -> ReplayContext:
    defaults = {
        "buffer_size": capacity,
        "batch_size": BATCH,
        "agent_learning_rate": 1e-3,
    }
    return ReplayContext(spec=spec, capacity=capacity, **defaults | settings)


def update_agent(
    agent: Agent, state: Any, sample: Sample, key: Array, turn: int
) -> tuple[Any, Array, Metrics]:
    """One update with its noise and its metrics."""
    state, td_errors, trace = agent.update(state, sample, agent.draw(key), MIDWAY, turn)
    return state, td_errors, agent.metrics(trace)


def draw_sample(
    replay: Replay, state: Any, key: Array, clock: Clock = MIDWAY
) -> tuple[Any, Sample, Metrics]:
    """One sample with its noise and its metrics."""
    state, sample, trace = replay.sample(state, replay.draw(key), clock)
    return state, sample, replay.metrics(trace)


def learn_alone(
    learner: Learner, state: LearnerState, scalars: Any, clock: Clock
) -> tuple[LearnerState, Metrics]:
    """One call of updates of a single learner."""
    (state,), (metrics,) = learn_together((learner,), (state,), (scalars,), clock)
    return state, metrics.unpack()


class Program(NamedTuple):
    config: TrainConfig
    learner: Learner
    init: Any  # (scalars, seed) -> state
    learn: Any  # compiled with the state donated
    start: LearnerState  # of seed 0, with STORED rows

    def run(
        self,
        changes: dict[str, float] | None = None,
        state: LearnerState | None = None,
        updates: int = 0,
    ) -> tuple[LearnerState, Metrics]:
        """One call, with some traced settings changed."""
        scalars = as_arrays({**traced_settings(self.config), **(changes or {})})
        state = jax.tree.map(jnp.copy, self.start if state is None else state)
        return self.learn(state, scalars, MIDWAY._replace(updates=jnp.int32(updates)))


@cache
def start(agent: Any, replay: Any) -> tuple[Any, LearnerState]:
    """`init` compiled, and the state of seed 0 with STORED rows."""
    config = train_config(agent, replay)
    learner = make_learner(config, SPEC)
    init = quick_jit(learner.init)
    scalars = as_arrays(traced_settings(config))
    state = init(scalars, jnp.uint32(0))
    return init, quick_jit(learner.add)(state, scalars, random_rows(0, STORED))


@cache
def program(agent: Any, replay: Any, updates: int = 4, quick: bool = True) -> Program:
    """The compiled learner of a config; `updates` is the length of its call."""
    config = train_config(agent, replay, phase_env_steps=updates, updates_per_call=updates)
    learner = make_learner(config, SPEC)
    init, state = start(agent, replay)
    learn = (quick_jit if quick else jax.jit)(partial(learn_alone, learner), donate_argnums=0)
    compiled = learn.lower(state, as_arrays(traced_settings(config)), MIDWAY).compile()
    return Program(config, learner, init, compiled, state)


def bits(tree: Any) -> list[np.ndarray]:
    """Every leaf as numpy; random keys as their numbers."""

    def number(leaf: Any) -> np.ndarray:
        keys = isinstance(leaf, Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if keys else leaf)

    return [number(leaf) for leaf in jax.tree.leaves(tree)]


def same_bits(one: Any, other: Any) -> bool:
    pairs = zip(bits(one), bits(other), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def close(one: Any, other: Any) -> bool:
    """Equal up to rounding."""
    pairs = zip(bits(one), bits(other), strict=True)
    return all(np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in pairs)
