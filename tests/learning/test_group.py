from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import BATCH, CAPACITY, SPEC, active, bits, random_rows, same_bits, train_config

import lfiw.learning.group
from lfiw.acting.policy import NumpyPolicy
from lfiw.agents.sac import SacConfig
from lfiw.learning.config import TrainConfig
from lfiw.learning.group import COMPILER_OPTIONS, DETERMINISTIC_OPTIONS, Shard, place_runs
from lfiw.learning.saved_state import saved_leaf
from lfiw.learning.team import SavedRuns, Team, placement
from lfiw.replay.lfiw import LfiwConfig
from lfiw.runs.checkpoint import Damaged

SEEDS = (0, 3, 7)
TEMPERATURES = (5.0, 0.5, 20.0)
ROWS = np.stack([random_rows(seed, 300) for seed in SEEDS])


def fake_devices(platform: str, count: int) -> Any:
    return [SimpleNamespace(platform=platform, id=number) for number in range(count)]


def make_config(seeds: tuple[int, ...], temperature: float = 5.0) -> TrainConfig:
    replay = active(LfiwConfig, temperature=temperature)
    normalised = {"env.normalize_observations": True}  # so that every kind of state is there
    return train_config(active(SacConfig), replay, seeds=seeds, **normalised)


class Trained(NamedTuple):
    team: Team
    metrics: list[Any]  # of the second call, by run
    former_states: list[Any]  # before it

    @property
    def states(self) -> list[Any]:
        return self.team.states[0]

    def policies(self) -> list[Any]:
        return [run for method in self.team.policies() for run in method]

    def snapshots(self) -> list[Any]:
        return [run for method in self.team.snapshots() for run in method]

    def export(self) -> list[Any]:
        return [run for method in self.team.export() for run in method]

    def restore(self, exported: list[Any]) -> None:
        saved = [SavedRuns([run], [own], []) for run, own in zip(exported, ROWS, strict=True)]
        self.team.restore(saved, num_rows=300)


def train(configs: list[TrainConfig], rows: np.ndarray, devices: Any) -> Trained:
    """Two phases of one call each."""
    team = Team(configs, SPEC, devices)
    assert len(team.groups) == 1
    team.add([own[None, :200] for own in rows])
    team.learn(env_steps=200, updates=0)
    team.add([own[None, 200:] for own in rows])
    former_states = team.states[0].copy()
    team.learn(env_steps=300, updates=4)
    return Trained(team, [run for calls in team.calls() for run in calls[-1]], former_states)


@pytest.fixture(scope="module", autouse=True)
def quick_compilation() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(COMPILER_OPTIONS, "cpu", {"xla_backend_optimization_level": 0})
        yield


# Each run has a temperature of its own: three methods in one group.
CONFIGS = [
    make_config((seed,), temperature) for seed, temperature in zip(SEEDS, TEMPERATURES, strict=True)
]


@pytest.fixture(scope="module")
def together() -> Trained:
    return train(CONFIGS, ROWS, jax.devices("cpu")[:1])


@pytest.fixture(scope="module")
def alone() -> Trained:
    return train(CONFIGS[1:2], ROWS[1:2], jax.devices("cpu")[:1])


@pytest.fixture(scope="module")
def batched() -> Trained:
    """The runs as one batch, as on a GPU."""
    cpu = jax.devices("cpu")[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lfiw.learning.group, "place_runs", lambda *_: [Shard(cpu, slice(0, 3))])
        patch.setitem(COMPILER_OPTIONS, "gpu", COMPILER_OPTIONS["cpu"])
        return train(CONFIGS, ROWS, fake_devices("gpu", 1))


def test_options_are_known_to_the_compiler() -> None:
    """Also those for a GPU, which a CPU ignores; an unknown name would raise."""
    for options in (*COMPILER_OPTIONS.values(), DETERMINISTIC_OPTIONS):
        assert jax.jit(lambda x: x + 1, compiler_options=options)(1.0) == 2.0


@pytest.mark.parametrize(("platform", "deterministic"), [("cpu", False), ("gpu", True)])
def test_devices_take_runs_that_go_alone_in_turn(platform: str, deterministic: bool) -> None:
    devices = fake_devices(platform, 2)
    config = replace(make_config(tuple(range(5))), deterministic=deterministic)
    shards = place_runs(config, devices)
    assert [shard.device.id for shard in shards] == [0, 1, 0, 1, 0]
    assert [shard.runs for shard in shards] == [slice(run, run + 1) for run in range(5)]


@pytest.mark.parametrize(
    ("num_runs", "num_devices", "bounds"),
    [
        (5, 1, [(0, 5)]),
        (6, 2, [(0, 3), (3, 6)]),
        (5, 2, [(0, 2), (2, 5)]),
        (2, 4, [(0, 1), (1, 2)]),  # no device without a run
    ],
)
def test_other_devices_take_equal_parts(
    num_runs: int, num_devices: int, bounds: list[tuple[int, int]]
) -> None:
    shards = place_runs(make_config(tuple(range(num_runs))), fake_devices("gpu", num_devices))
    assert [(shard.runs.start, shard.runs.stop) for shard in shards] == bounds
    assert [shard.device.id for shard in shards] == list(range(len(bounds)))


def test_a_run_in_a_group_equals_the_run_alone(together: Trained, alone: Trained) -> None:
    assert same_bits(together.states[1], alone.states[0])
    assert same_bits(together.metrics[1], alone.metrics[0])
    assert same_bits(together.policies()[1], alone.policies()[0])
    assert same_bits(together.snapshots()[1], alone.snapshots()[0])


def test_runs_differ(together: Trained) -> None:
    states, metrics, policies = together.states, together.metrics, together.policies()
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not same_bits(states[one].agent, states[other].agent)
        assert not same_bits(metrics[one], metrics[other])
        assert not same_bits(policies[one], policies[other])


def test_a_batch_of_runs_agrees_with_each_alone(together: Trained, batched: Trained) -> None:
    metrics = together.metrics
    (stacked,) = batched.states
    for run in range(len(SEEDS)):
        found = [array[run] for array in bits(stacked)]
        for one, other in zip(found, bits(together.states[run]), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
        for name, value in metrics[run].items():
            np.testing.assert_allclose(
                batched.metrics[run][name], value, rtol=1e-3, atol=1e-5, err_msg=name
            )


def test_a_batch_is_handed_out_by_run(together: Trained, batched: Trained) -> None:
    for found, expected in (
        (batched.policies(), together.policies()),
        (batched.snapshots(), together.snapshots()),
    ):
        assert len(found) == len(SEEDS)
        for one, other in zip(found, expected, strict=True):
            assert one.keys() == other.keys()
            for name in one:
                np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=1e-5)
    obs = np.zeros((1, SPEC.obs_size), np.float32)
    assert NumpyPolicy(batched.policies()[2]).act(obs).shape == (1, SPEC.action_size)
    for policy, own in zip(batched.policies(), ROWS, strict=True):
        seen = own[:, : SPEC.obs_size]
        np.testing.assert_allclose(policy["observation.mean"], seen.mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(policy["observation.std"], seen.std(axis=0), rtol=1e-4)


@pytest.mark.parametrize("kind", ["together", "batched"])
def test_no_two_runs_share_their_draws(kind: str, request: pytest.FixtureRequest) -> None:
    states = request.getfixturevalue(kind).states
    leaves = [np.atleast_2d(state.replay.base.tree[-1])[:, :200] for state in states]
    # In the first phase's slots a priority other than the initial one marks a draw.
    drawn = [set(np.flatnonzero(row != 1)) for row in np.concatenate(leaves)]
    assert len(drawn) == len(SEEDS)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert 3 * BATCH < len(drawn[one]) <= 8 * BATCH
        # With the same draws nearly all would be shared; by chance it is under one half.
        assert len(drawn[one] & drawn[other]) < 0.7 * len(drawn[one])


def test_runs_keep_their_own_rows(together: Trained, batched: Trained) -> None:
    (stacked,) = batched.states
    for run, state in enumerate(together.states):
        np.testing.assert_array_equal(state.replay.base.ring.rows[:300], ROWS[run])
        np.testing.assert_array_equal(stacked.replay.base.ring.rows[run, :300], ROWS[run])


def test_former_states_give_their_memory_away(together: Trained, batched: Trained) -> None:
    for state in together.former_states + batched.former_states:
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state))


@pytest.mark.parametrize("kind", ["together", "batched"])
def test_a_group_comes_back_from_its_export(kind: str, request: pytest.FixtureRequest) -> None:
    trained: Trained = request.getfixturevalue(kind)
    team = trained.team
    before = jax.device_get([bits(state) for state in trained.states])
    exported = trained.export()
    assert len(exported) == len(SEEDS)
    ring_size = CAPACITY * SPEC.row_size
    assert all(array.size < ring_size / 2 for run in exported for array in run.values())
    team.states = jax.tree.map(jnp.zeros_like, team.states)
    assert not same_bits(trained.states, before)
    trained.restore(exported)
    assert same_bits(trained.states, before)
    team.learn(env_steps=300, updates=8)  # it learns on, and the next test finds it as it was
    assert not same_bits(trained.states, before)
    trained.restore(exported)


def test_rows_come_back_to_their_slots() -> None:
    newest = np.array([[4.0], [5.0], [6.0]], np.float32)

    def ring(num_rows: int, capacity: int) -> list[Any]:
        leaves = [
            saved_leaf({}, newest, num_rows, capacity, f"replay.{name}")
            for name in ("rows", "head", "size")
        ]
        return [leaf.tolist() for leaf in leaves]

    # The last three of six rows went to slots 3, 0 and 1 of four.
    assert ring(6, 4) == [[[5.0], [6.0], [0.0], [4.0]], 2, 4]
    assert ring(3, 4) == [[[4.0], [5.0], [6.0], [0.0]], 3, 3]


def test_a_state_of_another_shape_is_refused(together: Trained) -> None:
    exported = together.export()
    name = next(name for name, array in exported[0].items() if array.ndim == 2)
    exported[0][name] = exported[0][name][:-1]
    with pytest.raises(Damaged, match="checkpoint"):
        together.restore(exported)


def test_a_state_with_more_than_is_known_is_refused(together: Trained) -> None:
    """As that of another version, whose networks had a bias more."""
    exported = together.export()
    exported[1]["agent.critics[0].offset"] = np.zeros(3, np.float32)
    with pytest.raises(Damaged, match=r"holds agent\.critics\[0\]\.offset, which this version"):
        together.restore(exported)


def test_methods_that_share_a_group_know_their_devices() -> None:
    """Three methods with 2, 1 and 1 seeds are one batch of four runs, two on each device."""
    configs = [make_config((5, 6), 1.0), make_config((7,), 2.0), make_config((8,), 3.0)]
    first, second = map(str, devices := fake_devices("gpu", 2))
    assert placement(configs, devices) == [
        [{"device": first, "seeds": [5, 6]}],
        [{"device": second, "seeds": [7]}],
        [{"device": second, "seeds": [8]}],
    ]
    other = replace(make_config((9, 10)), batch_size=8)  # another program, hence another group
    assert placement([*configs, other], devices)[-1] == [
        {"device": first, "seeds": [9]},
        {"device": second, "seeds": [10]},
    ]
