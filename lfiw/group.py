"""The only place that knows there are several runs: it puts the run axis on the device.

On a GPU the runs of a group are one batch (`vmap`). On the CPU each run is a program call
of its own, which gives the same bits as the run alone; calls spread over the CPU devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lfiw.config import TrainConfig
from lfiw.errors import Damaged
from lfiw.learner import LearnerState, make_learner, traced_settings
from lfiw.replay.sum_tree import grow_tree
from lfiw.types import Clock, EnvSpec, Metrics

# Independent kernels of an update run side by side (docs/performance.md has figures).
GPU_OPTIONS: dict[str, Any] = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
# Autotuning may choose other kernels each time; some kernels add in no fixed order.
DETERMINISTIC_OPTIONS: dict[str, Any] = {
    "xla_gpu_deterministic_ops": True,
    "xla_gpu_autotune_level": 0,
}
# Products this small gain nothing from a second thread, and bits no longer depend on threads.
CPU_OPTIONS: dict[str, Any] = {"xla_cpu_multi_thread_eigen": False}


class Shard(NamedTuple):
    """Runs that one device trains together."""

    device: jax.Device
    runs: slice


def place_runs(num_runs: int, devices: Sequence[jax.Device]) -> list[Shard]:
    """A fixed rule: CPU devices take one run at a time, in turn; other devices take equal
    parts of the group."""
    if devices[0].platform == "cpu":
        return [Shard(devices[run % len(devices)], slice(run, run + 1)) for run in range(num_runs)]
    bounds = np.linspace(0, num_runs, min(len(devices), num_runs) + 1).astype(int)
    return [
        Shard(device, slice(start, stop))
        for device, start, stop in zip(devices, bounds[:-1], bounds[1:], strict=False)
    ]


def compile_for_runs(
    function: Callable[..., Any],
    batched: bool,
    options: Mapping[str, Any],
    donate: bool = False,
    shared: int = 0,
) -> Any:
    """Compile a function of one run for a shard. Its last `shared` arguments are common to
    all runs; its first one, the state, is donated where the function replaces it."""
    jit = partial(jax.jit, donate_argnums=(0,) if donate else (), compiler_options=dict(options))
    if not batched:
        return jit(function)

    def over_runs(*arguments: Any) -> Any:
        axes = [0] * (len(arguments) - shared) + [None] * shared
        return jax.vmap(function, in_axes=axes)(*arguments)

    return jit(over_runs)


class Group:
    """The learners of several runs of one program, fed and read as numpy arrays [R, ...]."""

    def __init__(
        self,
        config: TrainConfig,
        spec: EnvSpec,
        devices: Sequence[jax.Device],
        scalars: Sequence[dict[str, float]] | None = None,
    ) -> None:
        self.config = config
        self.shards = place_runs(len(config.seeds), devices)
        self._batched = devices[0].platform != "cpu"
        learner = make_learner(config, spec)
        options = {"cpu": CPU_OPTIONS, "gpu": GPU_OPTIONS}.get(devices[0].platform, {})
        if config.deterministic and devices[0].platform == "gpu":
            options = options | DETERMINISTIC_OPTIONS
        compiled = partial(compile_for_runs, batched=self._batched, options=options)
        init = compiled(learner.init)
        self._add = compiled(learner.add, donate=True)
        self._learn = compiled(learner.learn, donate=True, shared=1)
        self._learner = learner

        values = scalars or [traced_settings(config)] * len(config.seeds)
        stacked = {
            name: np.asarray([run[name] for run in values], _dtype(values[0][name]))
            for name in values[0]
        }
        self._scalars = [self._put(stacked, shard) for shard in self.shards]
        seeds = np.asarray(config.seeds, np.uint32)
        keys = [self._put(seeds, shard) for shard in self.shards]
        self.states: list[LearnerState] = [
            init(scalars, key) for scalars, key in zip(self._scalars, keys, strict=True)
        ]

    def _put(self, values: Any, shard: Shard) -> Any:
        """A shard's part of arrays [R, ...] on its device."""
        part = shard.runs if self._batched else shard.runs.start
        return jax.device_put(jax.tree.map(lambda array: array[part], values), shard.device)

    def add(self, rows: np.ndarray) -> None:
        """Store collected transitions [R, n, row_size]."""
        self.states = [
            self._add(state, self._put(rows, shard))
            for state, shard in zip(self.states, self.shards, strict=True)
        ]

    def learn(self, env_steps: int, updates: int) -> list[Metrics]:
        """One compiled call of updates for every run; returns before it has finished."""
        clock = Clock(jnp.int32(env_steps), jnp.int32(updates))
        metrics = []
        for index, scalars in enumerate(self._scalars):
            self.states[index], seen = self._learn(self.states[index], scalars, clock)
            metrics.append(seen)
        return metrics

    def policies(self) -> list[dict[str, np.ndarray]]:
        """The numpy policy of every run."""
        return self.split([self._learner.policy(*pair) for pair in self._pairs()])

    def snapshots(self) -> list[dict[str, np.ndarray]]:
        return self.split([self._learner.snapshot(*pair) for pair in self._pairs()])

    def export(self) -> list[dict[str, np.ndarray]]:
        """The state of every run but for the ring's rows, which are on disk already."""
        parts = []
        for state in self.states:
            leaves = jax.tree_util.tree_leaves_with_path(state)
            parts.append({_leaf_name(path): _to_data(leaf) for path, leaf in leaves})
            parts[-1] = {name: leaf for name, leaf in parts[-1].items() if not _is_rows(name)}
        return self.split(parts)

    def restore(
        self, runs: Sequence[Mapping[str, np.ndarray]], rows: Sequence[np.ndarray], num_rows: int
    ) -> None:
        """Put every run back: its exported state and its newest rows [n, row_size]."""
        for index, shard in enumerate(self.shards):
            chosen = range(len(runs))[shard.runs]

            def leaf(path: Any, current: Any, chosen: range = chosen) -> Any:
                name = _leaf_name(path)
                if _is_rows(name):
                    values = [
                        ring_rows(rows[run], num_rows, self.config.capacity) for run in chosen
                    ]
                elif (counter := ring_counter(name, num_rows, self.config.capacity)) is not None:
                    values = [counter] * len(chosen)
                else:
                    values = [saved_array(name, runs[run], self.config.capacity) for run in chosen]
                array = np.stack(values) if self._batched else values[0]
                expected = jax.eval_shape(_to_data, current)
                if array.shape != expected.shape or array.dtype != expected.dtype:
                    raise Damaged(
                        f"The checkpoint's {name} is {array.dtype}{array.shape}, not "
                        f"{expected.dtype}{expected.shape}."
                    )
                return _from_data(array, current)

            restored = jax.tree_util.tree_map_with_path(leaf, self.states[index])
            self.states[index] = jax.device_put(restored, shard.device)

    def _pairs(self) -> list[tuple[LearnerState, Any]]:
        return list(zip(self.states, self._scalars, strict=True))

    def split(self, parts: list[Any]) -> list[Any]:
        """Results of the shards as one numpy tree per run."""
        on_host = jax.device_get(parts)
        if not self._batched:
            return list(on_host)
        return [
            jax.tree.map(lambda array, index=index: array[index], part)
            for part, shard in zip(on_host, self.shards, strict=True)
            for index in range(shard.runs.stop - shard.runs.start)
        ]


def ring_rows(newest: np.ndarray, num_rows: int, capacity: int) -> np.ndarray:
    """The ring's rows after `num_rows` were written, of which `newest` are the last."""
    rows = np.zeros((capacity, newest.shape[1]), np.float32)
    rows[np.arange(num_rows - len(newest), num_rows) % capacity] = newest
    return rows


def ring_counter(name: str, num_rows: int, capacity: int) -> np.ndarray | None:
    """The ring's head or size after `num_rows`: an extended run has a larger ring than the one
    that was exported, and its counters then differ."""
    if name.startswith("replay") and name.endswith(".head"):
        return np.array(num_rows % capacity, np.int32)
    if name.startswith("replay") and name.endswith(".size"):
        return np.array(min(num_rows, capacity), np.int32)
    return None


def saved_array(name: str, saved: Mapping[str, np.ndarray], capacity: int) -> np.ndarray:
    """The array itself; or, for a level of the sum tree of an extended run's larger ring, what
    the saved leaves make it: the slots of the ring stay where they were."""
    stem, _, level = name.rpartition("[")
    if stem.endswith(".tree"):
        leaves = saved[max(other for other in saved if other.startswith(f"{stem}["))]
        if len(leaves) < capacity:
            return np.asarray(grow_tree(jnp.asarray(leaves), capacity)[int(level[:-1])])
    return saved[name]


def _leaf_name(path: Any) -> str:
    return jax.tree_util.keystr(path).lstrip(".")


def _is_rows(name: str) -> bool:
    return name.startswith("replay") and name.endswith(".rows")


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_data(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _from_data(array: Any, current: Any) -> Any:
    return jax.random.wrap_key_data(array) if _is_key(current) else array


def _dtype(value: float) -> Any:
    return jnp.int32 if isinstance(value, int) else jnp.float32
