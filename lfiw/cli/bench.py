"""`lfiw bench NAME`: each benchmark is a dataclass; its fields are the options."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from lfiw.bench.result import BenchResult
from lfiw.errors import InputError
from lfiw.learning.config import TrainConfig, make_config
from lfiw.settings import override, parse


def finish(result: BenchResult, json: Path | None, console: Console) -> None:
    result.show(console)
    if json is not None:
        result.write(json)


def learner_config(env: str, agent: str, replay: str, runs: int, updates: int) -> TrainConfig:
    """So many runs, with so many updates of each in one compiled call."""
    made = make_config(env, agent, replay, seeds=range(runs))
    return override(override(made, "updates_per_call", updates), "phase_env_steps", updates)


@dataclass
class BenchLearner:
    """Time per update on the device alone, for several numbers of runs at once."""

    runs: str = "1,5"
    """Numbers of runs, separated by commas."""
    agent: str = "sac,td3"
    """Agents, separated by commas."""
    replay: str = "uniform,per,ere,lfiw"
    """Replay strategies, separated by commas."""
    env: str = "HalfCheetah-v5"
    """The environment whose sizes are used."""
    calls: int = 7
    """Timed calls of each; the median counts."""
    updates_per_call: int = 100
    """Updates in one compiled call."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Further settings, as for `lfiw train`, such as deterministic=true."""
    json: Path | None = None
    """Also write the rows to this file."""

    def run(self, console: Console) -> None:
        from lfiw.bench.learner import bench_learner
        from lfiw.cli.options import apply_settings, split_names

        configs = [
            learner_config(self.env, agent, replay, runs, self.updates_per_call)
            for agent in split_names(self.agent, "--agent")
            for runs in parse("--runs", self.runs, tuple[int, ...])
            for replay in split_names(self.replay, "--replay")
        ]
        configs = apply_settings(configs, self.set)
        finish(bench_learner(configs, self.calls), self.json, console)


@dataclass
class BenchProfile:
    """The operations that an update's time goes to."""

    agent: str = "sac"
    """The agent."""
    replay: str = "lfiw"
    """The replay strategy."""
    runs: int = 1
    """Runs at once."""
    env: str = "HalfCheetah-v5"
    """The environment whose sizes are used."""
    top: int = 20
    """How many operations are printed."""
    updates_per_call: int = 100
    """Updates in one compiled call."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Further settings, as for `lfiw train`."""
    json: Path | None = None
    """Also write the rows to this file."""

    def run(self, console: Console) -> None:
        from lfiw.bench.profile import bench_profile
        from lfiw.cli.options import apply_settings

        config = learner_config(self.env, self.agent, self.replay, self.runs, self.updates_per_call)
        (config,) = apply_settings([config], self.set)
        finish(bench_profile(config, self.top), self.json, console)


@dataclass
class BenchCollect:
    """Environment steps per second of the collector alone, by its number of workers and the
    environment's backend."""

    env: str = "HalfCheetah-v5"
    """The environment."""
    env_backend: str = "gymnasium"
    """Backends, separated by commas: gymnasium, envpool."""
    workers: str | None = None
    """Numbers of workers, separated by commas (default: powers of two up to the cores)."""
    runs: int | None = None
    """Runs that the workers share (default: one for each worker)."""
    agent: str = "sac"
    """The agent whose initial policy acts."""
    steps: int = 2000
    """Environment steps of each run in one call."""
    calls: int = 5
    """Timed calls of each; the median counts."""
    json: Path | None = None
    """Also write the rows to this file."""

    def run(self, console: Console) -> None:
        from lfiw.bench.collect import bench_collect, default_workers
        from lfiw.cli.options import split_names

        workers = default_workers()
        if self.workers is not None:
            workers = parse("--workers", self.workers, tuple[int, ...])
        backends = split_names(self.env_backend, "--env-backend")
        config = make_config(self.env, self.agent, "uniform")
        result = bench_collect(config, backends, workers, self.runs, self.steps, self.calls)
        finish(result, self.json, console)


@dataclass
class BenchTrain:
    """Training from start to end, as `lfiw train` does it, into a temporary folder."""

    env: str = "HalfCheetah-v5"
    """The environment."""
    agent: str = "sac"
    """Agents, separated by commas."""
    replay: str = "uniform,lfiw"
    """Replay strategies, separated by commas."""
    num_seeds: int = 2
    """Seeds of each method."""
    env_steps: str = "10000"
    """Environment steps of each run."""
    workers: int | None = None
    """Processes that step environments, for each method (default: one per core)."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Further settings, as for `lfiw train`."""
    json: Path | None = None
    """Also write the rows to this file."""

    def run(self, console: Console) -> None:
        from lfiw.bench.train import bench_train, command_started
        from lfiw.cli.train import Train

        command = Train(
            self.env,
            agent=self.agent,
            replay=self.replay,
            num_seeds=self.num_seeds,
            env_steps=self.env_steps,
            set=self.set,
        )
        result = bench_train(command.configs(), self.workers, command_started())
        finish(result, self.json, console)


@dataclass
class BenchPeers:
    """The same job with lfiw and with other libraries (install lfiw[peers]), in turns."""

    peers: str = "sb3,sbx,cleanrl,torchrl"
    """Other libraries, separated by commas."""
    agent: str = "sac"
    """Agents, separated by commas."""
    seeds: int = 1
    """Measure one seed and also this many at once."""
    env: str = "HalfCheetah-v5"
    """The environment."""
    env_steps: int = 3000
    """Environment steps of each run."""
    repeats: int = 5
    """Rounds; the median counts."""
    json: Path | None = None
    """Also write the rows to this file."""

    def run(self, console: Console) -> None:
        from lfiw.cli.options import split_names

        peers = import_peers()
        agents = split_names(self.agent, "--agent")
        job = peers.PeerJob("lfiw", self.env, agents[0], self.env_steps, tuple(range(self.seeds)))
        progress = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
        libraries = split_names(self.peers, "--peers")
        result = peers.bench_peers(libraries, agents, job, self.repeats, progress.print)
        finish(result, self.json, console)


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


BENCHMARKS: dict[str, Callable[..., Any]] = {
    "learner": BenchLearner,
    "profile": BenchProfile,
    "collect": BenchCollect,
    "train": BenchTrain,
    "peers": BenchPeers,
}
