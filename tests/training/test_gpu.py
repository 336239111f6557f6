"""What holds on a GPU: the same bits again with `--deterministic`, and a run of a group learns
what it learns alone. Skipped where jax sees no GPU."""

import random
import signal
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

import jax
import numpy as np
import pytest
from processes import finish
from programs import random_rows
from trainings import ENV, command, contents, kill_in_training, rows

from lfiw.learning.config import TrainConfig, make_config
from lfiw.learning.team import Team
from lfiw.types import EnvSpec

pytestmark = pytest.mark.skipif(
    jax.default_backend() != "gpu",
    reason="jax sees no GPU; where there is one, .venv/bin/pip install -e '.[cuda]' lets it.",
)

METHODS = ("sac-lfiw", "sac-per", "td3-lfiw", "td3-per")
SETTINGS = (
    *("learning_starts=400", "random_env_steps=400", "phase_env_steps=200"),
    *("updates_per_call=50", "replay.warmup_env_steps=600", "replay.fast_size=300"),
    *("eval_every_env_steps=1000", "eval_episodes=1", "checkpoint.every_env_steps=500"),
)
TRAIN = ("--agent", "sac,td3", "--replay", "lfiw,per", "--num-seeds", "3", "--env-steps", "6000")
HALF_CHEETAH = EnvSpec(obs_size=17, action_size=6)
UPDATES = 100


def start(folder: Path) -> Popen[str]:
    """Networks of the real size. Each folder has a compilation cache of its own, so programs
    are compiled again too."""
    options = ("--out", str(folder / "runs"), *TRAIN, "--deterministic", "--set", *SETTINGS)
    return command("train", ENV, *options, cache=folder)


def test_deterministic_runs_end_with_the_same_bits_also_when_killed(tmp_path: Path) -> None:
    folders = {name: tmp_path / name / "runs" for name in ("whole", "again", "killed")}
    processes = {name: start(folder.parent) for name, folder in folders.items()}
    runs = {name: folder / "environments-make_point" for name, folder in folders.items()}
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        kill_in_training(processes["killed"], runs["killed"], number, random.Random(number))
        processes["killed"] = command("resume", str(runs["killed"]), cache=tmp_path / "killed")
    for process in processes.values():
        finish(process)
    for method in METHODS:
        for name in ("again", "killed"):
            assert rows(runs[name] / method) == rows(runs["whole"] / method), (name, method)
            assert contents(runs[name] / method) == contents(runs["whole"] / method), (name, method)


def state(config: TrainConfig, data: np.ndarray) -> dict[str, np.ndarray]:
    """Of the first run, after some updates from the same transitions."""
    team = Team([config], HALF_CHEETAH, jax.devices()[:1])
    team.add([data[: len(config.seeds)]])
    team.learn(env_steps=20_000, updates=0)
    return team.export()[0][0]


@pytest.mark.parametrize("replay", ["uniform", "per", "ere", "lfiw"])
@pytest.mark.parametrize("agent", ["sac", "td3"])
def test_a_deterministic_run_in_a_group_has_the_bits_it_has_alone(agent: str, replay: str) -> None:
    data = np.stack([random_rows(seed, 2000, HALF_CHEETAH) for seed in range(3)])
    config = make_config(
        *("none", agent, replay),
        deterministic=True,
        phase_env_steps=UPDATES,
        updates_per_call=UPDATES,
    )
    together, alone = (state(replace(config, seeds=seeds), data) for seeds in ((0, 1, 2), (0,)))
    assert together.keys() == alone.keys()
    for name, values in together.items():
        np.testing.assert_array_equal(values, alone[name], err_msg=name)
