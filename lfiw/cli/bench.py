"""`lfiw bench NAME`: each benchmark is a dataclass; its fields are the options."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from lfiw.cli.options import (
    AgentName,
    AgentNames,
    Assignments,
    Command,
    ReplayName,
    ReplayNames,
    apply_settings,
    split_names,
    unset,
)
from lfiw.cli.train import Train
from lfiw.errors import InputError
from lfiw.settings import parse

if TYPE_CHECKING:
    from lfiw.bench.result import BenchResult
    from lfiw.learning.config import TrainConfig


@dataclass(kw_only=True)
class Benchmark(Command):
    env: str = "HalfCheetah-v5"
    """The environment."""
    json: Annotated[Path | None, unset("PATH")] = None
    """Also write the rows to this file."""

    def run(self, console: Console) -> None:
        result = self.measure()
        result.show(console)
        if self.json is not None:
            result.write(self.json)

    def measure(self) -> BenchResult:
        raise NotImplementedError


@dataclass(kw_only=True)
class LearnerBenchmark(Benchmark):
    updates_per_call: int = 100
    """Updates in one compiled call."""
    set: Assignments = ()
    """Further settings, as for `lfiw train`, such as deterministic=true."""

    def configs(
        self, agents: Sequence[str], runs: Sequence[int], replays: Sequence[str]
    ) -> list[TrainConfig]:
        """So many runs of each method, with so many updates of each in one compiled call."""
        from lfiw.learning.config import make_config

        size: dict[str, Any] = {
            "updates_per_call": self.updates_per_call,
            "phase_env_steps": self.updates_per_call,
        }
        if not runs or min(runs) < 1:
            raise InputError(f"--runs must be at least 1, not {min(runs, default='nothing')}.")
        configs = [
            make_config(self.env, agent, replay, seeds=range(count), **size)
            for agent in agents
            for count in runs
            for replay in replays
        ]
        return apply_settings(configs, self.set)


@dataclass
class BenchLearner(LearnerBenchmark):
    """Time per update on the device alone, for several numbers of runs at once."""

    runs: str = "1,5"
    """Numbers of runs, separated by commas."""
    agent: AgentNames = "sac,td3"
    replay: ReplayNames = "uniform,per,ere,lfiw"
    calls: int = 7
    """Timed calls of each; the median counts."""

    def measure(self) -> BenchResult:
        from lfiw.bench.learner import bench_learner

        agents, replays = split_names(self.agent, "--agent"), split_names(self.replay, "--replay")
        runs = parse("--runs", self.runs, tuple[int, ...])
        return bench_learner(self.configs(agents, runs, replays), self.calls)


@dataclass
class BenchProfile(LearnerBenchmark):
    """The operations that an update's time goes to."""

    agent: AgentName = "sac"
    replay: ReplayName = "lfiw"
    runs: int = 1
    """Runs at once."""
    top: int = 20
    """How many operations are printed."""

    def measure(self) -> BenchResult:
        from lfiw.bench.profile import bench_profile

        (config,) = self.configs([self.agent], [self.runs], [self.replay])
        return bench_profile(config, self.top)


@dataclass
class BenchCollect(Benchmark):
    """Environment steps per second of the collector alone, by its workers and backend."""

    env_backend: str = "gymnasium"
    """Backends, separated by commas: gymnasium, envpool."""
    workers: Annotated[str | None, unset("STR", "powers of two up to the cores")] = None
    """Numbers of workers, separated by commas."""
    runs: Annotated[int | None, unset("INT", "one for each worker")] = None
    """Runs that the workers share."""
    agent: AgentName = "sac"
    steps: int = 2000
    """Environment steps of each run in one call."""
    calls: int = 5
    """Timed calls of each; the median counts."""

    def measure(self) -> BenchResult:
        from lfiw.bench.collect import bench_collect, default_workers
        from lfiw.learning.config import make_config

        workers = default_workers()
        if self.workers is not None:
            workers = parse("--workers", self.workers, tuple[int, ...])
        backends = split_names(self.env_backend, "--env-backend")
        config = make_config(self.env, self.agent, "uniform")
        return bench_collect(config, backends, workers, self.runs, self.steps, self.calls)


@dataclass
class BenchTrain(Benchmark):
    """Training from start to end, as `lfiw train` does it, into a temporary folder."""

    agent: AgentNames = "sac"
    replay: ReplayNames = "uniform,lfiw"
    num_seeds: int = 2
    """Seeds of each method."""
    env_steps: str = "10000"
    """Environment steps of each run."""
    workers: Annotated[int | None, unset("INT", "one per core")] = None
    """Processes that step environments, for each method."""
    set: Assignments = ()
    """Further settings, as for `lfiw train`."""

    def measure(self) -> BenchResult:
        from lfiw.bench.train import bench_train, command_started

        if "," in self.env:
            raise InputError(f"One environment is measured at a time, not {self.env!r}.")
        command = Train(
            self.env,
            agent=self.agent,
            replay=self.replay,
            num_seeds=self.num_seeds,
            env_steps=self.env_steps,
            set=self.set,
        )
        return bench_train(command.configs(), self.workers, command_started(), self.quiet)


@dataclass
class BenchPeers(Benchmark):
    """The same job with lfiw and with other libraries, in turns."""

    peers: str = "sb3,sbx,cleanrl,torchrl"
    """Other libraries, separated by commas."""
    agent: AgentNames = "sac"
    seeds: int = 1
    """Measure one seed and also this many at once."""
    env_steps: int = 3000
    """Environment steps of each run."""
    repeats: int = 5
    """Rounds; the median counts."""

    def measure(self) -> BenchResult:
        peers = import_peers()
        agents = split_names(self.agent, "--agent")
        job = peers.PeerJob("lfiw", self.env, agents[0], self.env_steps, tuple(range(self.seeds)))
        progress = Console(
            stderr=True, soft_wrap=True, highlight=False, markup=False, quiet=self.quiet
        )
        libraries = split_names(self.peers, "--peers")
        result: BenchResult = peers.bench_peers(
            libraries, agents, job, self.repeats, progress.print
        )
        return result


def import_peers() -> Any:
    """The comparison with other libraries, a part of the repository and not of the package."""
    folder = Path(__file__).parents[2] / "benchmarks"
    if not (folder / "peers").is_dir():
        raise InputError(
            "The scripts of other libraries are in the folder benchmarks/peers of the repository, "
            "not in the package: run this command from a checkout (`make install`)."
        )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module("peers.compare")
