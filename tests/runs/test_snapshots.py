from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lfiw.acting.policy import NumpyPolicy
from lfiw.errors import InputError
from lfiw.runs.files import read_arrays, save_arrays
from lfiw.runs.layout import policy_file, snapshot_file
from lfiw.runs.policies import check_policy, load_policy
from lfiw.runs.snapshots import load_snapshot

BOUNDS = {"action_low": -np.ones(2, np.float32), "action_high": np.ones(2, np.float32)}


def layer(prefix: str, fill: float, outputs: int) -> dict[str, np.ndarray]:
    return {
        f"{prefix}.0.weight": np.full((3, outputs), fill, np.float32),
        f"{prefix}.0.bias": np.full(outputs, fill, np.float32),
    }


def write(folder: Path, kind: str, outputs: int, **extra: Any) -> None:
    save_arrays(policy_file(folder, 0), {**layer(kind, 9, outputs), **extra, **BOUNDS})
    save_arrays(snapshot_file(folder, 20, 0), {**layer("policy", 0.5, outputs), **BOUNDS})


def test_kind_and_noise_are_those_of_the_policy_file(tmp_path: Path) -> None:
    """The shape of the arrays alone would not tell: two outputs, two actions."""
    write(tmp_path, "deterministic", 2, exploration_noise=np.array(0.25, np.float32))
    arrays = load_snapshot(tmp_path, 20, 0).policy()
    assert arrays.keys() == load_policy(tmp_path).arrays.keys()
    policy = NumpyPolicy(arrays)
    obs, noise = np.zeros(3, np.float32), np.ones(2, np.float32)
    np.testing.assert_allclose(policy.act(obs), np.tanh([0.5, 0.5]), rtol=1e-6)
    np.testing.assert_allclose(policy.act(obs, noise) - policy.act(obs), 0.25, rtol=1e-5)


def test_a_gaussian_policy(tmp_path: Path) -> None:
    write(tmp_path, "gaussian", 4)
    policy = NumpyPolicy(load_snapshot(tmp_path, 20, 0).policy())
    assert (policy.kind, policy.action_size) == ("gaussian", 2)
    np.testing.assert_allclose(policy.act(np.zeros(3, np.float32)), np.tanh([0.5, 0.5]), rtol=1e-6)


def test_a_snapshot_has_the_statistics_of_its_time(tmp_path: Path) -> None:
    """All weights are 0.5: of (4, 0, 0) it sees (4 - 2) / 4 and twice (0 - 2) / 4, of which 0.5
    times the sum, and the bias, is 0.25. The policy of the end has others."""
    write(tmp_path, "deterministic", 2)

    def observation(mean: float, std: float) -> dict[str, np.ndarray]:
        values = {"mean": mean, "std": std}
        return {f"observation.{n}": np.full(3, value, np.float32) for n, value in values.items()}

    for path, own in (
        (policy_file(tmp_path, 0), observation(7, 9)),
        (snapshot_file(tmp_path, 20, 0), observation(2, 4)),
    ):
        save_arrays(path, read_arrays(path) | own)
    snapshot = load_snapshot(tmp_path, 20, 0)
    obs = np.float32([[4, 0, 0]])
    np.testing.assert_allclose(
        NumpyPolicy(snapshot.policy()).act(obs), np.tanh([[0.25, 0.25]]), rtol=1e-6
    )
    pairs = snapshot.pairs(obs, np.float32([[9]]))
    np.testing.assert_array_equal(pairs, np.float32([[0.5, -0.5, -0.5, 9]]))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    write(tmp_path, "gaussian", 4)
    with pytest.raises(InputError, match="no snapshot of seed 0 at 40 %"):
        load_snapshot(tmp_path, 40, 0)
    with pytest.raises(InputError, match="holds no ratio network"):
        load_snapshot(tmp_path, 20, 0).network("ratio")
    policy_file(tmp_path, 0).unlink()
    with pytest.raises(InputError, match="no policy of seed 0"):
        load_snapshot(tmp_path, 20, 0).policy()


def test_a_damaged_snapshot_gets_a_sentence(tmp_path: Path) -> None:
    write(tmp_path, "gaussian", 4)
    path = snapshot_file(tmp_path, 20, 0)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="hash does not match"):
        load_snapshot(tmp_path, 20, 0)


@pytest.mark.parametrize(
    "arrays",
    [
        {"gaussian.0.weight": np.zeros((3, 2), np.float32)},  # no bias
        layer("gaussian", 0, 5),  # not two for each action
        {name: array.astype(np.float16) for name, array in layer("gaussian", 0, 4).items()},
        {name: np.stack([array, array]) for name, array in layer("gaussian", 0, 4).items()},
        {"gaussian.0.weight": np.zeros((3, 4), "f"), "gaussian.0.bias": np.zeros(1, "f")},
        {"gaussian.wizard": np.zeros(3, np.float32)},
        layer("gaussian", 0, 2),  # one action, two bounds
        layer("gaussian", 0, 4) | {"observation.mean": np.zeros(3, np.float32)},  # no deviation
        layer("gaussian", 0, 4)
        | {"observation.mean": np.zeros(1, "f"), "observation.std": np.ones(1, "f")},
    ],
)
def test_arrays_that_are_no_policy(arrays: dict[str, np.ndarray]) -> None:
    check_policy({**layer("gaussian", 0, 4), **BOUNDS})
    with pytest.raises((KeyError, ValueError, IndexError)):
        check_policy({**arrays, **BOUNDS})
