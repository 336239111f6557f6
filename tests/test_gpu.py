"""What holds on a GPU: the same bits again with `--deterministic`, and a run of a group learns
what it would learn alone. Skipped where jax sees no GPU."""

import random
import signal
from pathlib import Path

import jax
import numpy as np
import pytest
from programs import random_rows
from trainings import ENV, HANG_GUARD, command, contents, kill_in_training, rows

from lfiw.config import TrainConfig, make_config
from lfiw.group import Group, Team
from lfiw.types import EnvSpec

pytestmark = pytest.mark.skipif(jax.default_backend() != "gpu", reason="jax sees no GPU")

METHODS = ("sac-lfiw", "sac-per", "td3-lfiw", "td3-per")
SETTINGS = (
    *("learning_starts=400", "random_env_steps=400", "phase_env_steps=200"),
    *("updates_per_call=50", "replay.warmup_env_steps=600", "replay.fast_size=300"),
    *("eval_every_env_steps=1000", "eval_episodes=1", "checkpoint.every_env_steps=500"),
)
TRAIN = ("--agent", "sac,td3", "--replay", "lfiw,per", "--num-seeds", "3", "--env-steps", "6000")
HALF_CHEETAH = EnvSpec(obs_size=17, action_size=6)
UPDATES = 100


def train(folder: Path) -> Path:
    """Networks of the real size. Each folder has a compilation cache of its own, so programs
    are compiled again too."""
    process = start(folder)
    output, _ = process.communicate(timeout=HANG_GUARD)
    assert process.returncode == 0, output
    return folder / "runs" / "environments-make_point"


def start(folder: Path):
    out = folder / "runs"
    return command(
        *("train", ENV, "--out", str(out), *TRAIN, "--deterministic", "--set", *SETTINGS), out=out
    )


def test_deterministic_runs_end_with_the_same_bits_also_when_killed(tmp_path: Path) -> None:
    whole, again = train(tmp_path / "whole"), train(tmp_path / "again")
    killed = tmp_path / "killed" / "runs" / "environments-make_point"
    process = start(tmp_path / "killed")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        kill_in_training(process, killed, number, random.Random(number))
        process = command("resume", str(killed), out=tmp_path / "killed" / "runs")
    output, _ = process.communicate(timeout=HANG_GUARD)
    assert process.returncode == 0, output
    for method in METHODS:
        for other in (again, killed):
            assert rows(other / method) == rows(whole / method), (other, method)
            assert contents(other / method) == contents(whole / method), (other, method)


def parameters(config: TrainConfig, data: np.ndarray) -> dict[str, np.ndarray]:
    """Of the first run, after some updates from the same transitions."""
    group = Group(config, HALF_CHEETAH, jax.devices()[:1])
    group.add(data[: len(config.seeds)])
    Team([group]).learn(env_steps=20_000, updates=0)
    return group.snapshots()[0]


@pytest.mark.parametrize("replay", ["uniform", "per", "lfiw"])
@pytest.mark.parametrize("agent", ["sac", "td3"])
def test_a_run_in_a_group_learns_what_it_learns_alone(agent: str, replay: str) -> None:
    data = np.stack([random_rows(seed, 2000, HALF_CHEETAH) for seed in range(5)])

    def config(seeds: range) -> TrainConfig:
        settings = {"phase_env_steps": UPDATES, "updates_per_call": UPDATES, "seeds": seeds}
        return make_config(
            "none", agent, replay, deterministic=True, matmul_precision="highest", **settings
        )

    together, alone = (parameters(config(range(runs)), data) for runs in (5, 1))
    assert together.keys() == alone.keys()
    for name, values in together.items():
        np.testing.assert_allclose(values, alone[name], rtol=0, atol=1e-5, err_msg=name)
