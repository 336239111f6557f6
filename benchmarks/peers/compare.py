"""The same job with lfiw and with other libraries, in turns, each in its own process."""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lfiw import __version__
from lfiw.acting.spaces import probe_env
from lfiw.agents import AGENTS
from lfiw.bench.result import BenchResult
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError, RunError
from lfiw.extras import install_command
from lfiw.machine import cpu_model, usable_cores
from lfiw.settings import pick
from peers.job import Mark, PeerJob, read_marks

OURS = "lfiw"
CLEANRL = (
    "cleanrl: its package is no library to call; `git clone "
    "https://github.com/vwxyzjn/cleanrl` and time its script there"
)
BUSY_LOAD = 0.5


@dataclass(frozen=True)
class Library:
    """Where a library's script is, and the names of its module and distribution."""

    script: str
    module: str
    distribution: str
    note: str = ""

    def missing(self) -> str:
        """Why it cannot be measured; empty where it can."""
        if not self.script:
            return self.note
        return "" if find_spec(self.module) else f"not installed: {install_command('peers')}"

    def version(self) -> str | None:
        if self.distribution == OURS:
            return __version__
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return None


LIBRARIES = {
    OURS: Library("ours", "lfiw", "lfiw"),
    "sb3": Library("stable_baselines", "stable_baselines3", "stable-baselines3"),
    "sbx": Library("stable_baselines", "sbx", "sbx-rl"),
    "torchrl": Library(
        "torch_rl", "torchrl", "torchrl", "its collector, buffer and losses in a loop of ours"
    ),
    "cleanrl": Library("", "", "cleanrl", "not measured: scripts to copy, not a library"),
}


@dataclass
class Contender:
    """One library with a number of seeds at once, and the rates of its rounds."""

    name: str
    job: PeerJob
    problem: str
    rates: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Ours trains all seeds in one process, the others a process for each."""
        if self.problem:
            return
        seeds = self.job.seeds
        jobs = [dataclasses.replace(self.job, seeds=(seed,)) for seed in seeds]
        try:
            if self.name == OURS:
                (marks,) = run_processes(LIBRARIES[OURS].script, [self.job])
                rate = len(seeds) * summed_rate([marks], self.job.measured_from)
            else:
                marks_of = run_processes(LIBRARIES[self.name].script, jobs)
                rate = summed_rate(marks_of, self.job.measured_from)
        except RunError as error:
            if self.name == OURS:
                raise
            self.problem = f"failed: {error}"
        else:
            self.rates.append(rate)

    def median(self) -> float | None:
        return statistics.median(self.rates) if self.rates and not self.problem else None


def run_processes(script: str, jobs: Sequence[PeerJob]) -> list[list[Mark]]:
    """The marks of jobs that run at the same time, each with its library's own threading."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="lfiw-bench-") as name:
        folder = Path(name)
        try:
            for index, job in enumerate(jobs):
                job_file, marks_file = folder / f"job-{index}.json", folder / f"marks-{index}.json"
                job.write(job_file)
                command = [sys.executable, "-m", f"peers.{script}"]
                command += [str(job_file), str(marks_file)]
                with (folder / f"errors-{index}.txt").open("wb") as errors:
                    process = subprocess.Popen(
                        command,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=errors,
                    )
                processes.append(process)
            for index, process in enumerate(processes):
                if process.wait() != 0:
                    raise RunError(last_line(folder / f"errors-{index}.txt", process.returncode))
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return [read_marks(folder / f"marks-{index}.json") for index in range(len(jobs))]


def last_line(errors: Path, code: int) -> str:
    lines = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else f"a process ended with exit code {code}"


def summed_rate(marks_of: Sequence[Sequence[Mark]], measured_from: int) -> float:
    """Environment steps per second over all processes, while all of them are learning."""
    learning = [[mark for mark in marks if mark[0] >= measured_from] for marks in marks_of]
    if not all(learning):
        raise RunError(f"No environment step after {measured_from} was seen.")
    start = max(marks[0][1] for marks in learning)
    stop = min(marks[-1][1] for marks in learning)
    total = 0.0
    for marks in learning:
        seconds = [mark[1] for mark in marks]
        first, last = bisect_left(seconds, start), bisect_right(seconds, stop) - 1
        if last <= first:
            raise RunError("The time to measure was too short; raise --env-steps.")
        total += (marks[last][0] - marks[first][0]) / (seconds[last] - seconds[first])
    return total


def make_contenders(peers: Sequence[str], agents: Sequence[str], job: PeerJob) -> list[Contender]:
    """Ours and the peers, for each agent, with one seed and with all at once."""
    contenders = []
    for agent in agents:
        for seeds in dict.fromkeys([(job.seeds[0],), tuple(job.seeds)]):
            for name in (OURS, *peers):
                library = LIBRARIES[name]
                its_job = dataclasses.replace(job, library=library.module, agent=agent, seeds=seeds)
                contenders.append(Contender(name, its_job, library.missing()))
    return contenders


def row_of(contender: Contender, ours: float | None) -> dict[str, Any]:
    theirs = contender.median()
    return {
        "library": contender.name,
        "version": LIBRARIES[contender.name].version(),
        "agent": contender.job.agent,
        "seeds": len(contender.job.seeds),
        "env_steps_per_s": theirs,
        "ours_over_theirs": ours / theirs if ours and theirs else None,
        "note": contender.problem or LIBRARIES[contender.name].note or None,
    }


def check_job(peers: Sequence[str], agents: Sequence[str], job: PeerJob, repeats: int) -> None:
    for name in peers:
        pick(name, {key: None for key in LIBRARIES if key != OURS}, "peer")
    for agent in agents:
        pick(agent, AGENTS, "agent")
    if not job.seeds or repeats < 1:
        raise InputError("--seeds and --repeats must be at least 1.")
    least = job.measured_from + 2 * job.phase_env_steps
    if job.env_steps < least:
        raise InputError(f"--env-steps must be at least {least}, not {job.env_steps}.")
    probe_env(EnvConfig(job.env))


def bench_peers(
    peers: Sequence[str],
    agents: Sequence[str],
    job: PeerJob,
    repeats: int = 3,
    report: Callable[[str], None] = lambda line: None,
) -> BenchResult:
    """Rounds in which every contender has its turn; the medians count."""
    check_job(peers, agents, job, repeats)
    load = os.getloadavg()[0]
    contenders = make_contenders(peers, agents, job)
    for turn in range(repeats):
        for contender in contenders:
            if turn and contender.problem:
                continue
            contender.measure()
            rate = contender.problem or f"{contender.rates[-1]:,.0f} environment steps/s"
            agent, seeds = contender.job.agent, len(contender.job.seeds)
            report(f"{turn + 1}/{repeats} {contender.name} {agent}, seeds {seeds}: {rate}")
    ours = {
        (contender.job.agent, len(contender.job.seeds)): contender.median()
        for contender in contenders
        if contender.name == OURS
    }
    rows = [
        row_of(
            contender,
            None if contender.name == OURS else ours[contender.job.agent, len(contender.job.seeds)],
        )
        for contender in contenders
    ]
    notes = [
        f"{job.env}, networks {'x'.join(map(str, job.hidden_sizes))}, batch {job.batch_size}, "
        f"one update per environment step, measured from step {job.measured_from} to "
        f"{job.env_steps}",
        f"medians of {repeats}; several seeds: lfiw in one process, a peer in one process each",
        f"load average at the start: {load:.1f} on {usable_cores()} cores",
    ]
    if load > BUSY_LOAD:
        notes.append(
            "The machine was busy with other work, which slows libraries with several threads "
            "most: do not trust these ratios."
        )
    if "cleanrl" in peers:
        notes.append(CLEANRL)
    return BenchResult(f"Peers on {cpu_model()}, {usable_cores()} cores", rows, tuple(notes))
