from typing import Any

import numpy as np
import pytest
from environments import Diary

from lfiw.acting.envs import make_env
from lfiw.acting.episodes import Episode, run_episodes
from lfiw.acting.evaluator import eval_seeds
from lfiw.acting.rollout import RESET_STREAM, EnvRunner, stream
from lfiw.acting.server import EnvServer
from lfiw.acting.spaces import check_spaces
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.types import row_columns

RNG = np.random.default_rng(0)


def linear_policy(kind: str, obs_size: int, outputs: int, **extra: Any) -> dict[str, Any]:
    """A network of one layer with small random weights."""
    return {
        f"{kind}.0.weight": 0.1 * RNG.standard_normal((obs_size, outputs), np.float32),
        f"{kind}.0.bias": 0.1 * RNG.standard_normal(outputs, np.float32),
        **extra,
    }


def fields(runner: EnvRunner, rows: np.ndarray) -> dict[str, np.ndarray]:
    columns = row_columns(runner.spec)._asdict()
    return {name: rows[:, column] for name, column in columns.items()}


def diary(**kwargs: Any) -> EnvRunner:
    return EnvRunner(EnvConfig("environments:make_diary", kwargs), seed=7)


def test_rows_hold_the_true_successor_also_at_the_end_of_episodes() -> None:
    runner = diary(length=3)
    rows = fields(runner, runner.collect(None, 8).rows)
    np.testing.assert_array_equal(rows["obs"][:, 0], [0, 0, 0, 1, 1, 1, 2, 2])
    np.testing.assert_array_equal(rows["obs"][:, 1], [0, 1, 2, 0, 1, 2, 0, 1])
    # Every successor belongs to the same episode, one step later: no reset is stitched in.
    np.testing.assert_array_equal(rows["next_obs"] - rows["obs"], [[0, 1, 0]] * 8)
    np.testing.assert_array_equal(rows["reward"], rows["obs"][:, 1])


def test_environment_may_write_into_the_observation_that_it_returned() -> None:
    rows = [
        EnvRunner(EnvConfig(f"environments:make_{name}", {"length": 3}), 7).collect(None, 8).rows
        for name in ("diary", "rewriting")
    ]
    np.testing.assert_array_equal(rows[1], rows[0])


@pytest.mark.parametrize(("terminates", "last"), [(True, 0.0), (False, 1.0)])
def test_discount_is_zero_only_where_the_episode_terminated(terminates: bool, last: float) -> None:
    runner = diary(length=3, terminates=terminates)
    rows = fields(runner, runner.collect(None, 7).rows)
    np.testing.assert_array_equal(rows["discount"], [1, 1, last, 1, 1, last, 1])


def test_time_limit_of_the_config_keeps_the_discount() -> None:
    config = EnvConfig("environments:make_endless_diary", max_episode_steps=3)
    runner = EnvRunner(config, seed=0)
    rows = fields(runner, runner.collect(None, 7).rows)
    np.testing.assert_array_equal(rows["obs"][:, 0], [0, 0, 0, 1, 1, 1, 2])
    np.testing.assert_array_equal(rows["discount"], np.ones(7))


def test_termination_at_the_time_limit_counts_as_termination() -> None:
    config = EnvConfig("environments:make_diary", {"length": 3, "terminates": True}, 3)
    runner = EnvRunner(config, seed=0)
    rows = fields(runner, runner.collect(None, 3).rows)
    np.testing.assert_array_equal(rows["discount"], [1, 1, 0])


def test_episodes_are_summed_up() -> None:
    """Rewards 0, 1, 2 in each episode of three steps; the third episode is still open."""
    runner = diary(length=3)
    assert runner.collect(None, 2).episodes == []
    assert runner.collect(None, 6).episodes == [Episode(3.0, 3), Episode(3.0, 3)]


def test_splitting_a_phase_changes_nothing() -> None:
    whole = diary(length=3).collect(None, 10).rows
    runner = diary(length=3)
    parts = [runner.collect(None, count).rows for count in (4, 1, 5)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_every_episode_has_a_seed_of_its_own() -> None:
    def seeds(seed: int) -> np.ndarray:
        runner = EnvRunner(EnvConfig("environments:make_diary", {"length": 1}), seed)
        rows = fields(runner, runner.collect(None, 50).rows)
        assert isinstance(runner.env.unwrapped, Diary)
        return rows["obs"][:, 2]

    first = seeds(7)
    assert len(set(first)) > 40
    assert np.all(first >= 0)
    np.testing.assert_array_equal(seeds(7), first)
    assert np.any(seeds(8) != first)


def test_episode_is_replayed_from_its_seed_and_actions() -> None:
    runner = EnvRunner(EnvConfig("Pendulum-v1", max_episode_steps=10), seed=3)
    runner.collect(None, 10)
    seed = runner.episode_seed
    rows = fields(runner, runner.collect(None, 10).rows)
    env = make_env(EnvConfig("Pendulum-v1"))
    obs, _ = env.reset(seed=seed)
    for action, stored, successor, reward in zip(
        rows["action"], rows["obs"], rows["next_obs"], rows["reward"], strict=True
    ):
        np.testing.assert_array_equal(obs, stored)
        obs, seen, *_ = env.step(runner.scale.to_env(action))
        np.testing.assert_array_equal(obs, successor)
        assert np.float32(seen) == reward


def test_random_actions_are_uniform() -> None:
    runner = EnvRunner(EnvConfig("environments:make_echo"), seed=0)
    actions = np.sort(fields(runner, runner.collect(None, 4000).rows)["action"], axis=0)
    assert np.all(np.abs(actions) <= 1)
    # Kolmogorov-Smirnov distance to the uniform distribution, at 0.1 % significance.
    uniform = (np.arange(4000) + 0.5)[:, None] / 4000
    assert np.max(np.abs((actions + 1) / 2 - uniform)) < 1.95 / np.sqrt(4000)


def test_stored_actions_are_in_units_and_given_ones_within_the_bounds() -> None:
    runner = EnvRunner(EnvConfig("environments:make_echo"), seed=0)
    rows = fields(runner, runner.collect(None, 20).rows)
    given = rows["next_obs"]  # the environment's observation is the action that it got
    np.testing.assert_allclose(given[:, 0], -1 + 2 * rows["action"][:, 0], atol=1e-6)
    np.testing.assert_allclose(given[:, 1], 20 + 10 * rows["action"][:, 1], atol=1e-5)


@pytest.mark.parametrize("kind", ["gaussian", "deterministic"])
def test_policy_acts_with_reproducible_noise(kind: str) -> None:
    extra = {"exploration_noise": np.float32(0.3)} if kind == "deterministic" else {}
    arrays = linear_policy(kind, 2, 4 if kind == "gaussian" else 2, **extra)

    def actions(seed: int) -> np.ndarray:
        runner = EnvRunner(EnvConfig("environments:make_echo"), seed)
        return fields(runner, runner.collect(arrays, 30).rows)["action"]

    np.testing.assert_array_equal(actions(0), actions(0))
    assert np.all(np.abs(actions(0)) <= 1)
    assert not np.any(np.all(actions(0) == actions(1), axis=1))


def test_exploration_noise_by_hand() -> None:
    """All weights zero: the action is 0.5 times a standard normal, clipped at 1."""
    arrays = {
        "deterministic.0.weight": np.zeros((2, 2), np.float32),
        "deterministic.0.bias": np.zeros(2, np.float32),
        "exploration_noise": np.float32(0.5),
    }
    runner = EnvRunner(EnvConfig("environments:make_echo"), seed=0)
    actions = fields(runner, runner.collect(arrays, 3000).rows)["action"]
    inside = np.abs(actions) < 1
    assert np.mean(~inside) == pytest.approx(0.0455, abs=0.01)  # beyond two deviations
    assert np.mean(np.abs(actions) < 0.5) == pytest.approx(0.6827, abs=0.02)  # within one


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("fault", "field"), [("obs", "next_obs"), ("reward", "reward")])
def test_non_finite_values_are_refused(fault: str, field: str, value: float) -> None:
    kwargs = {"fault": fault, "at": 5, "value": value}
    runner = EnvRunner(EnvConfig("environments:make_faulty", kwargs), seed=0)
    assert np.all(np.isfinite(runner.collect(None, 3).rows))
    with pytest.raises(InputError) as raised:
        runner.collect(None, 4)
    assert str(raised.value) == (
        f"environments:make_faulty produced a non-finite {field} at environment step 5."
    )


def test_value_too_large_for_the_ring_is_refused() -> None:
    kwargs = {"fault": "reward", "at": 2, "value": 1e39}  # infinite in float32
    runner = EnvRunner(EnvConfig("environments:make_faulty", kwargs), seed=0)
    with pytest.raises(InputError, match="non-finite reward at environment step 2"):
        runner.collect(None, 4)


def test_non_finite_start_is_refused() -> None:
    kwargs = {"fault": "obs", "at": 0}
    with pytest.raises(InputError, match="reset to a non-finite obs at environment step 0"):
        EnvRunner(EnvConfig("environments:make_faulty", kwargs), seed=0)


def test_non_finite_observation_never_reaches_the_policy() -> None:
    """Else the environment may fail first, by an action that is not a number."""
    runner = EnvRunner(EnvConfig("environments:make_faulty", {"at": 5}), seed=0)
    with pytest.raises(InputError, match="non-finite next_obs at environment step 5"):
        runner.collect(linear_policy("deterministic", 3, 1), 8)


@pytest.mark.parametrize(
    ("field", "at"),  # at a reset, in the middle of an episode, and at its end
    [("obs", 0), ("obs", 2), ("obs", 3), ("reward", 2), ("reward", 3)],
)
def test_non_finite_values_in_an_evaluation_are_refused(field: str, at: int) -> None:
    host = EnvServer(EnvConfig("environments:make_faulty", {"fault": field, "at": at}))
    with pytest.raises(InputError) as raised:
        host.evaluate(linear_policy("deterministic", 3, 1), [0])
    assert str(raised.value) == (
        f"environments:make_faulty produced a non-finite {field} at step {at} of an episode."
    )


def test_observation_of_another_shape_is_refused() -> None:
    kwargs = {"fault": "shape", "at": 5}  # (1,) would be broadcast without a word
    runner = EnvRunner(EnvConfig("environments:make_faulty", kwargs), seed=0)
    with pytest.raises(InputError, match=r"environments:make_faulty.*shape"):
        runner.collect(None, 8)


@pytest.mark.parametrize("env_steps", [None, 10_000])
def test_evaluation_seeds_are_those_of_the_seed_and_apart_from_training(
    env_steps: int | None,
) -> None:
    assert eval_seeds(3, 5, env_steps) == eval_seeds(3, 8, env_steps)[:5]
    assert eval_seeds(3, 5, env_steps) != eval_seeds(4, 5, env_steps)
    runner = diary()
    assert runner.episode_seed not in eval_seeds(7, 100, env_steps)


def test_every_evaluation_has_reset_seeds_of_its_own_that_training_never_draws() -> None:
    """A million steps: 100 evaluations of five episodes, and as many training episodes as there
    would be if they ended after 100 steps."""
    evaluated = [one for at in range(1, 101) for one in eval_seeds(0, 5, 10_000 * at)]
    assert len(set(evaluated)) == 500
    trained = set(stream(0, RESET_STREAM).integers(2**31, size=10_000).tolist())
    assert not trained & set(evaluated)


def test_fixed_starts_are_those_of_older_versions() -> None:
    known = [2103381653, 173568302, 616130500, 864228577, 491783082]
    assert eval_seeds(0, 5, None) == known


def test_evaluation_episodes_are_decided_by_policy_and_seed() -> None:
    config = EnvConfig("Pendulum-v1", max_episode_steps=20)
    env = make_env(config)
    _, scale = check_spaces(env, config.id)
    arrays = linear_policy("gaussian", 3, 2)
    first = run_episodes(env, scale, arrays, [5, 6, 5])
    assert first[0] == first[2]
    assert first[0] != first[1]
    assert run_episodes(env, scale, arrays, [6, 5]) == [first[1], first[0]]
    assert [episode.length for episode in first] == [20, 20, 20]


def test_evaluation_does_not_explore() -> None:
    config = EnvConfig("environments:make_bandit", {"best": 0.0})
    env = make_env(config)
    _, scale = check_spaces(env, config.id)
    arrays = {
        "gaussian.0.weight": np.zeros((3, 2), np.float32),
        "gaussian.0.bias": np.zeros(2, np.float32),
    }
    assert run_episodes(env, scale, arrays, range(20)) == [Episode(1.0, 1)] * 20


def test_evaluation_leaves_training_alone() -> None:
    def rows(evaluate: bool) -> np.ndarray:
        host = EnvServer(EnvConfig("environments:make_diary", {"length": 3}))
        host.open({0: 7})
        parts = []
        for _ in range(3):
            parts.append(host.collect({0: None}, 5)[0].rows)
            if evaluate:
                host.evaluate(linear_policy("deterministic", 3, 1), [1, 2])
        host.close()
        return np.concatenate(parts)

    np.testing.assert_array_equal(rows(True), rows(False))
