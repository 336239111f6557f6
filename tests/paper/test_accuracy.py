import json
from pathlib import Path

import numpy as np
import pytest
from hand_made import linear, make_run, save_snapshot

from lfiw.errors import InputError
from lfiw.paper.accuracy import analyse_accuracy, classifier_quality, ratio_accuracy
from lfiw.paper.cells import Study
from lfiw.runs.files import read_arrays, save_arrays
from lfiw.runs.layout import snapshot_file
from lfiw.training.folder import Training

ENV = "environments:make_forever"  # observes three zeros
PAIRS, UPDATES = 40, 200


def acting(action: float) -> dict[str, np.ndarray]:
    """A policy that always does the same."""
    return linear(np.zeros((3, 1)), [np.arctanh(action)])


def make_lfiw(folder: Path, seed: int) -> Training:
    """The final policy acts 0.5; of the four earlier ones the last does so too, the others -0.5.
    The ratio network's logit is the action."""
    settings = {"agent.exploration_noise": 0.0, "replay.hidden_sizes": (16,), "batch_size": 32}
    run = make_run(folder, ENV, "td3", "lfiw", seeds=(seed,), **settings)
    ratio = linear([[0], [0], [0], [1]], [0])
    for percent, action in zip((20, 40, 60, 80, 100), (-0.5, -0.5, -0.5, 0.5, 0.5), strict=True):
        save_snapshot(run, percent, {"policy": acting(action), "ratio": ratio})
    return run


@pytest.fixture
def run(tmp_path: Path) -> Training:
    return make_lfiw(tmp_path / "sac-lfiw", 3)


def test_quality_by_hand() -> None:
    """3 of 4 positives are called so, and 1 of 4 negatives; a logit of 0 (w = 1) is no call."""
    quality = classifier_quality(np.array([1, 2, -1, 3]), np.array([-1, 0, 0.5, -3]))
    assert quality == {"precision": 3 / 4, "accuracy": 6 / 8}


def test_a_network_that_calls_nothing_positive_has_no_precision() -> None:
    quality = classifier_quality(-np.ones(2), -np.ones(2))
    assert quality == {"precision": None, "accuracy": 0.5}


def test_known_accuracy(run: Training) -> None:
    """All 40 positives are called so, and the 10 of 40 negatives that look like them: precision
    40 / 50, accuracy 70 / 80. A network fitted to such pairs can do no better, nor worse: where
    all positives and a quarter of the negatives are, w = 4."""
    found = ratio_accuracy(run, 3, PAIRS, UPDATES)
    assert found["pairs"] == [40, 40]
    assert found["trained"] == {"precision": 0.8, "accuracy": 0.875}
    assert found["refitted"] == {"precision": 0.8, "accuracy": 0.875}


def test_ratio_network_sees_normalised_observations(run: Training) -> None:
    """Its logit is now the first number of an observation, which is 0 and is seen as
    (0 - (-1)) / 2: all pairs are called positive."""
    arrays = linear([[1], [0], [0], [0]], [0])
    path = snapshot_file(run.folder, 100, 3)
    seen = {"observation.mean": -np.ones(3, "f"), "observation.std": np.full(3, 2, "f")}
    ratio = {f"ratio.{name}": array for name, array in arrays.items()}
    save_arrays(path, read_arrays(path) | ratio | seen)
    found = ratio_accuracy(run, 3, PAIRS, UPDATES)
    assert found["trained"] == {"precision": 0.5, "accuracy": 0.5}
    assert found["refitted"] == {"precision": 0.8, "accuracy": 0.875}


def test_file(run: Training, tmp_path: Path) -> None:
    (path,) = analyse_accuracy(Study("accuracy", "smoke", tmp_path, [run]))
    content = json.loads(path.read_text())
    assert content["paper"] == {"precision": 0.873, "accuracy": 0.731}
    assert content["trained"] == {"precision": 0.8, "accuracy": 0.875}
    assert [row["seed"] for row in content["runs"]] == [3]


def test_seeds_that_were_added_are_counted_and_stopped_ones_are_not(
    run: Training, tmp_path: Path
) -> None:
    make_lfiw(run.folder / "added" / "seed-7", 7)
    sick = make_lfiw(run.folder / "added" / "seed-8", 8)
    row = {"kind": "stopped", "seed": 8, "env_steps": 9, "reason": "it is sick"}
    (sick.folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    (path,) = analyse_accuracy(Study("accuracy", "smoke", tmp_path, [run]))
    assert [row["seed"] for row in json.loads(path.read_text())["runs"]] == [3, 7]


def test_missing_snapshot_is_named(run: Training) -> None:
    with pytest.raises(InputError, match="no snapshot of seed 9 at 100 %"):
        ratio_accuracy(run, 9, PAIRS, UPDATES)


def test_runs_without_a_ratio_network_are_refused(tmp_path: Path) -> None:
    uniform = make_run(tmp_path / "sac-uniform", ENV, "sac", "uniform")
    with pytest.raises(InputError, match="name one with LFIW"):
        analyse_accuracy(Study("accuracy", "smoke", tmp_path, [uniform]))
