"""Learning for one run: transitions go into the ring, a scan makes a call's updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from lfiw.agents import make_agent
from lfiw.agents.base import Agent
from lfiw.learning.config import TrainConfig
from lfiw.learning.packed import Packed
from lfiw.learning.scalars import Scalars, traced_settings, with_scalars
from lfiw.replay import make_replay
from lfiw.replay.base import Replay, ReplayContext
from lfiw.replay.observations import statistics_arrays
from lfiw.types import Clock, EnvSpec, Metrics, Trace


class LearnerState(NamedTuple):
    agent: Any
    replay: Any
    key: Array


class CycleInputs(NamedTuple):
    """What the cycles of a call need from outside: [cycles, ...]."""

    start: Array  # the count of updates before the cycle
    noise: Any  # [cycles, period, ...]


class Learner(NamedTuple):
    """Pure functions of one run. `scalars` are its traced settings."""

    init: Callable[[Scalars, Array], LearnerState]  # (scalars, seed)
    add: Callable[[LearnerState, Scalars, Array], LearnerState]  # (state, scalars, packed rows)
    # A call of updates is `prepare`, a scan of `cycle`, and `summarise`: see learn_together.
    prepare: Callable[[LearnerState, Scalars, Clock], CycleInputs]
    cycle: Callable[[LearnerState, Scalars, Clock, CycleInputs], tuple[LearnerState, Any]]
    summarise: Callable[[Scalars, Any], Packed]  # metrics averaged over the call's updates
    policy: Callable[[LearnerState, Scalars], dict[str, Array]]
    snapshot: Callable[[LearnerState, Scalars], dict[str, Array]]


def learn_together(
    learners: Sequence[Learner],
    states: Sequence[LearnerState],
    scalars: Sequence[Scalars],
    clock: Clock,
) -> tuple[tuple[LearnerState, ...], tuple[Packed, ...]]:
    """One call of updates for several learners, cycle by cycle in one scan."""
    each = list(zip(learners, scalars, strict=True))

    def cycles(states: Any, inputs: Any) -> tuple[Any, Any]:
        done = [
            learner.cycle(state, own, clock, given)
            for (learner, own), state, given in zip(each, states, inputs, strict=True)
        ]
        return tuple(state for state, _ in done), tuple(traces for _, traces in done)

    inputs = tuple(
        learner.prepare(state, own, clock)
        for (learner, own), state in zip(each, states, strict=True)
    )
    learned, traces = scan_packed(cycles, tuple(states), inputs)
    metrics = (
        learner.summarise(own, seen) for (learner, own), seen in zip(each, traces, strict=True)
    )
    return learned, tuple(metrics)


def state_bytes(config: TrainConfig, spec: EnvSpec) -> int:
    """Memory of one run on its device; the ring makes nearly all of it."""
    learner = make_learner(config, spec)
    scalars = {name: jnp.zeros((), jnp.float32) for name in traced_settings(config)}
    state = jax.eval_shape(learner.init, scalars, jnp.zeros((), jnp.uint32))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


def updates_in_call(config: TrainConfig, period: int) -> int:
    """The fixed number of updates of a compiled call: the largest divisor of a phase's
    updates within `updates_per_call`, in whole cycles of the agent."""
    cycles = max(1, round(config.phase_env_steps * config.updates_per_env_step) // period)
    most = max(1, config.updates_per_call // period)
    return period * max(n for n in range(1, min(cycles, most) + 1) if cycles % n == 0)


def scan_packed(body: Callable[..., Any], state: Any, inputs: Any) -> tuple[Any, Any]:
    """`lax.scan` whose outputs are stored as one vector a step: one write instead of many."""
    first = jax.tree.map(lambda values: values[0], inputs)
    shapes = jax.eval_shape(body, state, first)[1]
    _, unpack = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes))

    def packed(state: Any, step: Any) -> tuple[Any, Array]:
        state, outputs = body(state, step)
        return state, ravel_pytree(outputs)[0]

    state, outputs = jax.lax.scan(packed, state, inputs)
    return state, jax.vmap(unpack)(outputs)


def make_parts(config: TrainConfig, spec: EnvSpec, scalars: Scalars) -> tuple[Agent, Replay]:
    run = with_scalars(config, scalars)
    context = ReplayContext(
        spec=spec,
        capacity=config.capacity,
        buffer_size=config.buffer_size,
        batch_size=config.batch_size,
        agent_learning_rate=run.agent.learning_rate,
        normalize_observations=config.env.normalize_observations,
        updates_per_env_step=config.updates_per_env_step,
    )
    replay = make_replay(run.replay, context)
    return make_agent(run.agent, spec, config.batch_size, replay.td_loss), replay


def make_learner(config: TrainConfig, spec: EnvSpec) -> Learner:
    parts = partial(make_parts, config, spec)

    def init(scalars: Scalars, seed: Array) -> LearnerState:
        agent, replay = parts(scalars)
        key_agent, key_replay, key_updates = jax.random.split(jax.random.key(seed), 3)
        return LearnerState(agent.init(key_agent), replay.init(key_replay), key_updates)

    def add(state: LearnerState, scalars: Scalars, rows: Array) -> LearnerState:
        agent, replay = parts(scalars)
        return state._replace(
            agent=agent.observe(state.agent, rows), replay=replay.add(state.replay, rows)
        )

    def prepare(state: LearnerState, scalars: Scalars, clock: Clock) -> CycleInputs:
        agent, replay = parts(scalars)

        def draw(update: Array) -> Any:
            # Keys are a function of the count of updates, so a resumed run draws the same.
            key_replay, key_agent = jax.random.split(jax.random.fold_in(state.key, update))
            return replay.draw(key_replay), agent.draw(key_agent)

        count = updates_in_call(config, agent.period)
        updates = clock.updates + jnp.arange(count)
        by_cycle = (count // agent.period, agent.period)
        noise = jax.tree.map(
            lambda values: values.reshape(*by_cycle, *values.shape[1:]), jax.vmap(draw)(updates)
        )
        return CycleInputs(updates[:: agent.period], noise)

    def cycle(
        state: LearnerState, scalars: Scalars, clock: Clock, inputs: CycleInputs
    ) -> tuple[LearnerState, list[Any]]:
        agent, replay = parts(scalars)
        horizon = with_scalars(config, scalars).schedule_horizon
        clock = clock._replace(progress=jnp.minimum(clock.env_steps / horizon, 1.0))

        def update(
            state: LearnerState, noise: Any, clock: Clock, turn: int
        ) -> tuple[LearnerState, tuple[Trace, Trace]]:
            replay_noise, agent_noise = noise
            replay_state, sample, replay_trace = replay.sample(state.replay, replay_noise, clock)
            agent_state, td_errors, trace = agent.update(
                state.agent, sample, agent_noise, clock, turn
            )
            replay_state = replay.feedback(replay_state, sample, td_errors)
            return LearnerState(agent_state, replay_state, state.key), (trace, replay_trace)

        traces = []
        with jax.default_matmul_precision(config.matmul_precision):
            for turn in range(agent.period):
                turn_noise = jax.tree.map(lambda values, turn=turn: values[turn], inputs.noise)
                turn_clock = clock._replace(updates=inputs.start + turn)
                state, trace = update(state, turn_noise, turn_clock, turn)
                traces.append(trace)
        return state, traces

    def summarise(scalars: Scalars, traces: list[tuple[Trace, Trace]]) -> Packed:
        agent, replay = parts(scalars)

        def of_cycle(traces: list[tuple[Trace, Trace]]) -> Metrics:
            """Means over the cycle's updates; a delayed policy loss is there only once."""
            turns = [agent.metrics(mine) | replay.metrics(theirs) for mine, theirs in traces]
            names = dict.fromkeys(name for turn in turns for name in turn)
            return {
                name: jnp.mean(jnp.stack([turn[name] for turn in turns if name in turn]), axis=0)
                for name in names
            }

        by_cycle = jax.vmap(of_cycle)(traces)
        return Packed.of({name: jnp.mean(values, axis=0) for name, values in by_cycle.items()})

    def policy(state: LearnerState, scalars: Scalars) -> dict[str, Array]:
        agent, replay = parts(scalars)
        return agent.policy(state.agent) | of_observations(state, replay)

    def snapshot(state: LearnerState, scalars: Scalars) -> dict[str, Array]:
        agent, replay = parts(scalars)
        networks = agent.networks(state.agent) | replay.networks(state.replay)
        return networks | of_observations(state, replay)

    def of_observations(state: LearnerState, replay: Replay) -> dict[str, Array]:
        """What the networks need to take raw ones."""
        statistics = replay.ring(state.replay).statistics
        return {} if statistics is None else statistics_arrays(statistics)

    return Learner(
        init=init,
        add=add,
        prepare=prepare,
        cycle=cycle,
        summarise=summarise,
        policy=policy,
        snapshot=snapshot,
    )
