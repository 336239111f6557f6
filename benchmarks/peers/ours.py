"""The job with lfiw itself, all seeds in one process."""

from __future__ import annotations

import dataclasses
import tempfile

from lfiw.learning.config import TrainConfig, make_config
from lfiw.runs.read import read_metrics
from lfiw.settings import override
from lfiw.training import train
from peers.job import Mark, PeerJob, run_script


class FullRing(TrainConfig):
    """A ring of the whole size, as the others have it, though a short run fills little of it."""

    @property
    def capacity(self) -> int:
        return self.buffer_size


def make_job_config(job: PeerJob) -> TrainConfig:
    config = make_config(
        job.env,
        job.agent,
        "uniform",
        seeds=job.seeds,
        env_steps=job.env_steps,
        batch_size=job.batch_size,
        buffer_size=job.buffer_size,
        phase_env_steps=job.phase_env_steps,
        random_env_steps=job.learning_starts,
        learning_starts=job.learning_starts,
        eval_every_env_steps=job.env_steps,  # once, after the last mark: the others do not
        eval_episodes=1,
    )
    config = override(config, "agent.hidden_sizes", tuple(job.hidden_sizes))
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return FullRing(**fields)


def run(job: PeerJob) -> list[Mark]:
    """Marks where all updates that were due had been made."""
    with tempfile.TemporaryDirectory(prefix="lfiw-bench-") as out:
        trained = train(make_job_config(job), out=out, quiet=True)
        rows = read_metrics(trained.folder, "train")
    return [
        (row["env_steps"], row["wall_seconds"])
        for row in rows
        if row["seed"] == job.seeds[0]
        and row["updates"] == max(0, row["env_steps"] - job.learning_starts)
    ]


if __name__ == "__main__":
    run_script(run)
