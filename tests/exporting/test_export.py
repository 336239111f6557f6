import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hand_made import make_run

import lfiw
from lfiw.errors import InputError, RunError
from lfiw.exporting import formats, steps
from lfiw.exporting.hub import export_hub_folder
from lfiw.networks import NETWORKS
from lfiw.results import read_methods
from lfiw.runs.files import write_whole
from lfiw.runs.layout import find_folders
from lfiw.runs.policies import save_policies

BOUNDS = {"action_low": np.array([-1, 0], np.float32), "action_high": np.array([3, 1], np.float32)}
FORMATS = [name for name in formats.FORMATS if name != "torch"]  # whose test has torch


def by_hand() -> dict[str, np.ndarray]:
    """Two observations a, b; hidden relu(a - b) and relu(b); means tanh(hidden_0), tanh(-2
    hidden_1); the deviations, which no deterministic action has, are large numbers."""
    layers = {
        "gaussian.0.weight": [[1, 0], [-1, 1]],
        "gaussian.0.bias": [0, 0],
        "gaussian.1.weight": [[1, 0, 70, 80], [0, -2, 70, 80]],
        "gaussian.1.bias": [0, 0, 50, 60],
    }
    return {name: np.array(array, np.float32) for name, array in layers.items()}


def folder_with(tmp_path: Path, arrays: dict[str, np.ndarray]) -> Path:
    run = make_run(tmp_path / "sac-uniform", "Pendulum-v1", "sac", "uniform")
    save_policies(run.folder, {0: arrays}, BOUNDS)
    return run.folder


@pytest.mark.parametrize("to", FORMATS)
def test_actions_by_hand(to: str, tmp_path: Path) -> None:
    """Actions of [-1, 3] and [0, 1]: 1 + 2 tanh(...) and (1 + tanh(...)) / 2."""
    path = lfiw.export(folder_with(tmp_path, by_hand()), to)
    act = formats.FORMATS[to].decode(path.read_bytes())
    obs = np.array([[3, 1], [1, 3], [0, 0]], np.float32)
    expected = [
        [1 + 2 * math.tanh(2), (1 + math.tanh(-2)) / 2],
        [1, (1 + math.tanh(-6)) / 2],
        [1, 0.5],
    ]
    np.testing.assert_allclose(act(obs), expected, atol=1e-6)
    assert act(obs[:1]).shape == (1, 2)


def residual_by_hand() -> dict[str, np.ndarray]:
    """One block on two observations a, b, which adds relu(-relu(b)) and relu(relu(a)) to them."""
    swapped, same = [[0, 1], [-1, 0]], [[1, 0], [0, 1]]
    layers = {
        "embedding": (same, [0, 0]),
        "0.widening": (same, [0, 0]),
        "0.narrowing": (swapped, [0, 0]),
        "head": ([[1, 0, 70, 80], [0, 1, 70, 80]], [0, 0.5, 50, 60]),
    }
    return {
        f"bounded-gaussian.residual.{name}.{part}": np.array(array, np.float32)
        for name, layer in layers.items()
        for part, array in zip(("weight", "bias"), layer, strict=True)
    }


@pytest.mark.parametrize("to", FORMATS)
def test_actions_of_a_residual_network_by_hand(to: str, tmp_path: Path) -> None:
    """(3, -7) becomes (3, -7 + 3), over the root of (9 + 16) / 2; (-2, 5) stays, over that of
    (4 + 25) / 2."""
    path = lfiw.export(folder_with(tmp_path, residual_by_hand()), to)
    act = formats.FORMATS[to].decode(path.read_bytes())
    expected = [
        [1 + 2 * math.tanh(a), (1 + math.tanh(b + 0.5)) / 2]
        for a, b in np.array([[3, -4], [-2, 5]]) / np.sqrt([[12.5], [14.5]])
    ]
    np.testing.assert_allclose(act(np.array([[3, -7], [-2, 5]], np.float32)), expected, atol=1e-6)


def test_every_network_can_be_exported() -> None:
    assert steps.NETWORKS.keys() == NETWORKS.keys()


def test_a_network_without_steps_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(steps.NETWORKS, "residual")
    with pytest.raises(InputError, match="network is of kind 'residual' cannot be exported"):
        lfiw.export(folder_with(tmp_path, residual_by_hand()), "numpy")


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("to", FORMATS)
def test_observations_are_normalised_and_clipped(to: str, tmp_path: Path) -> None:
    """(a - 1) / 2 within ten deviations: 5 is 2, and 1001 is cut from 500 to 10."""
    statistics = {
        "observation.mean": np.array([1, 0], np.float32),
        "observation.std": np.array([2, 1], np.float32),
    }
    arrays = by_hand() | {"gaussian.1.weight": np.array([[0.1] + [0] * 3, [0] * 4], np.float32)}
    path = lfiw.export(folder_with(tmp_path, arrays | statistics), to, "out" + suffix(to))
    act = formats.FORMATS[to].decode(path.read_bytes())
    actions = act(np.array([[5, 0], [1001, 0]], np.float32))
    expected = [1 + 2 * math.tanh(0.2), 1 + 2 * math.tanh(1)]
    np.testing.assert_allclose(actions[:, 0], expected, atol=1e-6)


def suffix(to: str) -> str:
    return formats.FORMATS[to].suffix


def test_what_acts_otherwise_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path, by_hand())
    wrong = formats.FORMATS["numpy"]._replace(decode=lambda content: lambda obs: obs + 0.5)
    monkeypatch.setitem(formats.FORMATS, "numpy", wrong)
    with pytest.raises(RunError, match="acts differently"):
        lfiw.export(folder, "numpy")
    broken = wrong._replace(decode=lambda content: lambda obs: np.full((64, 2), np.nan))
    monkeypatch.setitem(formats.FORMATS, "numpy", broken)
    with pytest.raises(RunError, match="acts differently"):
        lfiw.export(folder, "numpy")
    assert not Path("policy.npz").exists()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"to": "onx"}, r"Unknown format 'onx'\. Did you mean onnx"),
        ({"to": "onnx", "out": "a.txt"}, r"a\.txt: the name of a file for onnx must end in \.onnx"),
        ({"to": "numpy", "seed": 3}, "holds no policy of seed 3"),
        ({"to": "numpy", "seed": "first"}, "seed takes a value of type int"),
        ({"to": "numpy", "out": "policies/none/file/a.npz"}, None),
    ],
)
def test_bad_input(settings: dict[str, Any], sentence: str | None, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, by_hand())
    Path("policies").write_text("a file")
    with pytest.raises(InputError, match=sentence):
        lfiw.export(folder, **settings)
    assert {path.name for path in Path().iterdir()} == {folder.name, "policies"}


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(InputError, match=r"Exporting to onnx needs onnx.*: .*pip install"):
        lfiw.export(folder_with(tmp_path, by_hand()), "onnx")


def pendulum(tmp_path: Path) -> Path:
    """A method folder with one evaluation and a policy that fits Pendulum."""
    folder = make_run(tmp_path / "sac-lap", "Pendulum-v1", "sac", "lap").folder
    arrays = {"deterministic.0.weight": np.ones((3, 1)), "deterministic.0.bias": np.zeros(1)}
    bounds = {"action_low": -2 * np.ones(1), "action_high": 2 * np.ones(1)}
    plain = {name: array.astype(np.float32) for name, array in (arrays | bounds).items()}
    save_policies(folder, {0: plain}, {})
    row = {"kind": "eval", "seed": 0, "env_steps": 100, "updates": 1}
    row |= {"return_mean": -5.0, "return_std": 1.0, "length_mean": 200.0, "episodes": 1}
    write_whole(folder / "metrics.jsonl", (json.dumps(row) + "\n").encode())
    return folder


def test_a_folder_to_share(tmp_path: Path) -> None:
    notes: list[str] = []
    made = export_hub_folder(pendulum(tmp_path), episodes=2, note=notes.append)
    assert made == Path("Pendulum-v1-sac-lap")
    names = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    needed = {"README.md", "config.json", "results.json", "curves.png", "policy.npz"}
    assert needed | {"policies/seed-0.safetensors"} <= names
    assert ("replay.mp4" in names) != bool(notes)
    results = json.loads((made / "results.json").read_text())
    (evaluated,) = lfiw.evaluate(tmp_path / "sac-lap", episodes=2)
    assert results["mean_reward"] == evaluated["return_mean"]
    assert (results["n_eval_episodes"], results["is_deterministic"]) == (2, True)
    card = (made / "README.md").read_text()
    head = yaml.safe_load(card.split("---")[1])
    (model,) = head["model-index"]
    assert model["name"] == "SAC + LAP"
    assert model["results"][0]["metrics"][0]["value"].startswith(
        f"{results['mean_reward']:.2f} +/-"
    )
    assert "Pendulum-v1" in head["tags"] and "reinforcement-learning" in head["tags"]
    obs = np.array([0.1, 0.2, 0.3], np.float32)
    action, _ = lfiw.load_policy(made).predict(obs)  # as the card says
    np.testing.assert_allclose(action, 2 * math.tanh(0.6), rtol=1e-5)
    assert not list(Path().glob(".export-*"))
    with pytest.raises(InputError, match="exists already"):
        export_hub_folder(tmp_path / "sac-lap")


def test_a_folder_to_share_is_not_taken_for_a_training(tmp_path: Path) -> None:
    """Plots and reports of what is around it go on without it, and a resume would train in it."""
    run = pendulum(tmp_path)
    made = export_hub_folder(run, episodes=2)
    before = sorted(made.rglob("*"))
    assert find_folders([tmp_path]) == [run]
    assert [method.name for method in read_methods([tmp_path])] == ["sac-lap"]
    with pytest.raises(InputError, match="holds an exported policy and not its training"):
        lfiw.resume(made)
    assert sorted(made.rglob("*")) == before


def test_a_folder_that_fails_leaves_nothing(tmp_path: Path) -> None:
    folder = pendulum(tmp_path)
    with pytest.raises(InputError, match="episodes must be at least 1"):
        export_hub_folder(folder, episodes=0)
    assert [path.name for path in Path().iterdir()] == ["sac-lap"]
