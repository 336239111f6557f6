"""The only place that knows there are several runs: it puts the run axis on the device.

On a GPU the runs of a group are one batch (`vmap`). On the CPU, and with `deterministic`, each
run is a program call of its own, which gives the same bits as the run alone; calls spread over
the devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lfiw.errors import Damaged
from lfiw.learning.config import TrainConfig
from lfiw.learning.learner import Learner, LearnerState, make_learner
from lfiw.learning.programs import Programs
from lfiw.learning.saved_state import (
    exported,
    from_data,
    leaf_name,
    refuse_unknown,
    saved_leaf,
    to_data,
)
from lfiw.types import EnvSpec

# By platform. On a GPU a whole call is one graph in which independent kernels run side by side.
COMPILER_OPTIONS: dict[str, dict[str, Any]] = {
    "cpu": {},
    "gpu": {
        "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
        "xla_gpu_enable_command_buffer": (
            "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,WHILE,CONDITIONAL,DYNAMIC_SLICE_FUSION"
        ),
    },
}
# Autotuning may choose other kernels each time; some kernels add in no fixed order.
DETERMINISTIC_OPTIONS: dict[str, Any] = {
    "xla_gpu_deterministic_ops": True,
    "xla_gpu_autotune_level": 0,
}


class Shard(NamedTuple):
    """Runs that one device trains together."""

    device: jax.Device
    runs: slice


def runs_alone(config: TrainConfig, devices: Sequence[jax.Device]) -> bool:
    """Whether each run is a call of its own. A batch of another size adds in another order, so
    the bits of a run in a batch depend on its neighbours."""
    return config.deterministic or devices[0].platform == "cpu"


def place_runs(config: TrainConfig, devices: Sequence[jax.Device]) -> list[Shard]:
    """A fixed rule: devices take runs that go alone in turn, and equal parts of a batch."""
    num_runs = len(config.seeds)
    if runs_alone(config, devices):
        return [Shard(devices[run % len(devices)], slice(run, run + 1)) for run in range(num_runs)]
    bounds = np.linspace(0, num_runs, min(len(devices), num_runs) + 1).astype(int)
    return [
        Shard(device, slice(start, stop))
        for device, start, stop in zip(devices, bounds[:-1], bounds[1:], strict=False)
    ]


def over_runs(learner: Learner) -> Learner:
    """The learner of a batch of runs: arrays of a state have the run axis first, what a scan
    walks along has it second."""
    return learner._replace(
        init=jax.vmap(learner.init),
        add=jax.vmap(learner.add),
        prepare=jax.vmap(learner.prepare, in_axes=(0, 0, None), out_axes=1),
        cycle=jax.vmap(learner.cycle, in_axes=(0, 0, None, 0)),
        summarise=jax.vmap(learner.summarise, in_axes=(0, 1)),
        policy=jax.vmap(learner.policy),
        snapshot=jax.vmap(learner.snapshot),
    )


States = list[LearnerState]  # by shard; a batch of runs has the run axis first in its arrays


class Group:
    """The program of several runs that differ in seeds and traced settings alone, and their places
    on devices: functions of states that somebody else keeps, fed and read as arrays [R, ...]."""

    def __init__(
        self,
        config: TrainConfig,
        spec: EnvSpec,
        devices: Sequence[jax.Device],
        scalars: Sequence[dict[str, float]],
        compiler_options: Mapping[str, Any],
        programs: Programs,
    ) -> None:
        """`scalars`: the traced settings of each run."""
        self.config = config
        self.shards = place_runs(config, devices)
        self.batched = not runs_alone(config, devices)
        self.learner = programs.learner(config, self.batched, self._make_learner(spec))
        self.options = dict(COMPILER_OPTIONS.get(devices[0].platform, {}))
        if config.deterministic and devices[0].platform == "gpu":
            self.options |= DETERMINISTIC_OPTIONS
        self.options |= compiler_options
        self._init = programs.init(self.learner, self.options)
        self._add = programs.add(self.learner, self.options)
        stacked = {
            name: np.asarray([run[name] for run in scalars], _dtype(scalars[0][name]))
            for name in scalars[0]
        }
        self.scalars = [self._put(stacked, shard) for shard in self.shards]

    def _make_learner(self, spec: EnvSpec) -> Callable[[], Learner]:
        def make() -> Learner:
            learner = make_learner(self.config, spec)
            return over_runs(learner) if self.batched else learner

        return make

    def _put(self, values: Any, shard: Shard) -> Any:
        """A shard's part of arrays [R, ...] on its device."""
        part = shard.runs if self.batched else shard.runs.start
        return jax.device_put(jax.tree.map(lambda array: array[part], values), shard.device)

    def init(self) -> States:
        seeds = np.asarray(self.config.seeds, np.uint32)
        return [
            self._init(shard.device, scalars, self._put(seeds, shard))
            for scalars, shard in zip(self.scalars, self.shards, strict=True)
        ]

    def add(self, states: States, rows: np.ndarray) -> States:
        """Store collected transitions [R, n, row_size]; the given states are used up."""
        return [
            self._add(shard.device, state, scalars, self._put(rows, shard))
            for state, scalars, shard in zip(states, self.scalars, self.shards, strict=True)
        ]

    def policies(self, states: States) -> list[dict[str, np.ndarray]]:
        """The numpy policy of every run."""
        pairs = zip(states, self.scalars, strict=True)
        return self.split([self.learner.policy(*pair) for pair in pairs])

    def snapshots(self, states: States) -> list[dict[str, np.ndarray]]:
        """The networks of every run."""
        pairs = zip(states, self.scalars, strict=True)
        return self.split([self.learner.snapshot(*pair) for pair in pairs])

    def export(self, states: States) -> list[dict[str, np.ndarray]]:
        """The state of every run but for the ring's rows."""
        return self.split([exported(state) for state in states])

    def restore(
        self,
        states: States,
        runs: Sequence[Mapping[str, np.ndarray]],
        rows: Sequence[np.ndarray],
        num_rows: int,
    ) -> States:
        """States like the given ones with what was exported of every run, and its newest rows."""
        restored = []
        for state, shard in zip(states, self.shards, strict=True):
            for saved in runs[shard.runs]:
                refuse_unknown(saved, state)
            own = [
                partial(saved_leaf, runs[run], rows[run], num_rows, self.config.capacity)
                for run in range(len(runs))[shard.runs]
            ]
            new = jax.tree_util.tree_map_with_path(partial(self._leaf, own), state)
            restored.append(jax.device_put(new, shard.device))
        return restored

    def _leaf(self, runs: Sequence[Callable[[str], np.ndarray]], path: Any, current: Any) -> Any:
        name = leaf_name(path)
        array = np.stack([run(name) for run in runs]) if self.batched else runs[0](name)
        expected = jax.eval_shape(to_data, current)
        if array.shape != expected.shape or array.dtype != expected.dtype:
            raise Damaged(
                f"The checkpoint's {name} is {array.dtype}{array.shape}, not "
                f"{expected.dtype}{expected.shape}."
            )
        return from_data(array, current)

    def split(self, parts: list[Any]) -> list[Any]:
        """Results of the shards as one numpy tree per run."""
        on_host = jax.device_get(parts)
        if not self.batched:
            return list(on_host)
        return [
            jax.tree.map(lambda array, index=index: array[index], part)
            for part, shard in zip(on_host, self.shards, strict=True)
            for index in range(shard.runs.stop - shard.runs.start)
        ]


def _dtype(value: float) -> Any:
    return jnp.int32 if isinstance(value, int) else jnp.float32
