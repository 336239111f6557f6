"""Whole trainings with `env.normalize_observations`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import compiled_programs_kept_in, small
from trainings import rows

import lfiw
from lfiw.acting.envs import make_env
from lfiw.env_config import EnvConfig
from lfiw.errors import RunError
from lfiw.paper.accuracy import ratio_accuracy
from lfiw.paper.q_quality import q_quality
from lfiw.results.store import comparable
from lfiw.runs.snapshots import load_snapshot
from lfiw.runs.verify import verify_run
from lfiw.settings import to_json
from lfiw.training.folder import Training
from lfiw.training.resume import resume_all

SCALE = (2.0**9, 2.0**-6)
SCALED = "environments:make_scaled"


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with compiled_programs_kept_in(tmp_path_factory.mktemp("programs")):
        yield


def train(
    out: Path,
    env: EnvConfig | str = SCALED,
    agent: str = "sac",
    replay: str = "lfiw",
    normalize: bool = True,
    **changes: Any,
) -> Training:
    settings = small(replay, **{"env.normalize_observations": normalize}, **changes)
    return lfiw.train(env, agent, replay, out=out, quiet=True, workers=0, **settings)


def policies(training: Training, seed: int = 0) -> dict[str, np.ndarray]:
    return lfiw.load_policy(training, seed).arrays


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """Two seeds of LFIW; of the coordinates one is large and one small."""
    env = EnvConfig(SCALED, {"scale": SCALE})
    return train(tmp_path_factory.mktemp("scaled"), env, seeds=(0, 1))


def test_statistics_are_those_of_all_observations_so_far(scaled: Training) -> None:
    """Also of those that the ring of 200 has overwritten: its files have all 600 still."""
    stored = np.fromfile(next(scaled.folder.glob("ring/seed-1/rows-*.f32")), np.float32)
    obs = stored.reshape(600, 8)[:, :2].astype(float)
    policy = policies(scaled, 1)
    np.testing.assert_allclose(policy["observation.mean"], obs.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(policy["observation.std"], obs.std(axis=0), rtol=1e-4)


@pytest.mark.parametrize(("agent", "replay"), [("sac", "lfiw"), ("td3", "per")])
def test_units_of_observations_change_no_bit(
    scaled: Training, tmp_path: Path, agent: str, replay: str
) -> None:
    """Powers of two, with which nothing is rounded: networks and returns are those of the task in
    its own units, also where the ratio network takes part."""
    plain = train(tmp_path / "plain", agent=agent, replay=replay)
    if (agent, replay) == ("sac", "lfiw"):
        other = scaled
    else:
        other = train(tmp_path / "scaled", EnvConfig(SCALED, {"scale": SCALE}), agent, replay)
    mine, theirs = policies(plain), policies(other)
    for name in ("observation.mean", "observation.std"):
        np.testing.assert_array_equal(theirs.pop(name), mine.pop(name) * np.float32(SCALE))
    assert same(mine, theirs)
    logged = [row for row in rows(other.folder) if row["seed"] == 0]
    assert logged == rows(plain.folder)
    assert any(row.get("classifier_loss") for row in logged) == (replay == "lfiw")


@pytest.mark.parametrize("replay", ["lfiw", "uniform"])
def test_observations_of_mean_0_and_variance_1_change_no_bit(tmp_path: Path, replay: str) -> None:
    """The limit at which normalising does nothing."""
    runs = [
        train(tmp_path / str(on), "environments:make_alternating", "sac", replay, on)
        for on in (True, False)
    ]
    on, off = map(policies, runs)
    assert (on.pop("observation.mean"), on.pop("observation.std")) == (0, 1)
    assert same(on, off)
    assert rows(runs[0].folder) == rows(runs[1].folder)


def test_a_seed_is_the_same_in_a_group_and_alone(scaled: Training, tmp_path: Path) -> None:
    alone = train(tmp_path, EnvConfig(SCALED, {"scale": SCALE}), seeds=(1,))
    assert same(policies(alone, 1), policies(scaled, 1))
    assert not same(policies(scaled, 0), policies(scaled, 1))


def test_loaded_policy_and_evaluation_take_raw_observations(scaled: Training) -> None:
    policy = lfiw.load_policy(scaled, seed=1)
    env = make_env(scaled.config.env)
    obs, _ = env.reset(seed=4)
    total, over = 0.0, False
    seen = []
    while not over:
        seen.append(obs)
        obs, reward, terminated, truncated, _ = env.step(policy.predict(obs)[0])
        total += float(reward)
        over = terminated or truncated
    (row,) = lfiw.evaluate(scaled, episodes=1, seed=1, episode_seed=4)
    assert row["return_mean"] == pytest.approx(total, rel=1e-5)
    # By hand: normalise, then the policy of the arrays without statistics.
    arrays = dict(policy.arrays)
    mean, std = arrays.pop("observation.mean"), arrays.pop("observation.std")
    by_hand = lfiw.Policy(arrays).predict((np.array(seen) - mean) / std)[0]
    np.testing.assert_allclose(policy.predict(np.array(seen))[0], by_hand, atol=1e-5)


def test_folded_into_the_first_layer_it_is_the_same_policy(scaled: Training) -> None:
    """W' = W / std and b' = b - mean W / std: another way to the same actions."""
    policy = lfiw.load_policy(scaled, seed=0)
    arrays = dict(policy.arrays)
    mean, std = arrays.pop("observation.mean"), arrays.pop("observation.std")
    weight, bias = arrays["gaussian.0.weight"], arrays["gaussian.0.bias"]
    arrays["gaussian.0.weight"] = weight / std[:, None]
    arrays["gaussian.0.bias"] = bias - (mean / std) @ weight
    obs = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32) * np.float32(SCALE)
    np.testing.assert_allclose(
        policy.predict(obs)[0], lfiw.Policy(arrays).predict(obs)[0], atol=1e-4
    )


@pytest.mark.parametrize(("agent", "replay"), [("td3", "ere"), ("sac", "lfiw")])
def test_stopped_within_a_phase_and_resumed_it_ends_the_same(
    scaled: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, replay: str
) -> None:
    env = EnvConfig(SCALED, {"scale": SCALE})
    phases = 0

    def fail(*arguments: Any) -> None:
        nonlocal phases
        phases += 1
        if phases == 8:  # after 400 of 600 steps; the newest checkpoint is of step 350
            raise RunError("pulled the plug")
        finish(*arguments)

    seeds = (0, 1)
    whole = scaled if replay == "lfiw" else train(tmp_path, env, agent, replay, seeds=seeds)
    finish = lfiw.training.member.Member.finish_phase
    saving = {"checkpoint.every_env_steps": 50}
    with monkeypatch.context() as patch:
        patch.setattr("lfiw.training.member.Member.finish_phase", fail)
        with pytest.raises(RunError, match="pulled the plug"):
            train(tmp_path / "cut", env, agent, replay, seeds=seeds, **saving)
    (resumed,) = resume_all([tmp_path / "cut"], quiet=True, workers=0)
    assert rows(resumed.folder) == rows(whole.folder)
    for seed in seeds:
        assert same(policies(resumed, seed), policies(whole, seed))
        for percent in (20, 60, 100):
            mine = load_snapshot(resumed, percent, seed).arrays
            assert same(mine, load_snapshot(whole, percent, seed).arrays)


def test_snapshots_keep_the_statistics_of_their_time_and_analyses_use_them(
    scaled: Training,
) -> None:
    early, late = (load_snapshot(scaled, percent, 0) for percent in (20, 100))
    assert not np.array_equal(early.arrays["observation.mean"], late.arrays["observation.mean"])
    assert np.array_equal(early.policy()["observation.mean"], early.arrays["observation.mean"])
    found = ratio_accuracy(scaled, 0, num_pairs=40, refit_updates=5)
    assert 0 <= found["trained"]["accuracy"] <= 1
    assert np.isfinite(q_quality(scaled, 0, num_trajectories=1)["mean_q"])


def test_verified(scaled: Training) -> None:
    problems, _ = verify_run(scaled.folder)
    assert problems == []


def test_a_store_does_not_mix_it_with_seeds_without(scaled: Training) -> None:
    config = to_json(scaled.config)
    without = {**config["env"], "normalize_observations": False}
    assert comparable(config) != comparable({**config, "env": without})
    del without["normalize_observations"]  # as older versions stored it
    assert comparable(config) != comparable({**config, "env": without})
