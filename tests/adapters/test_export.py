"""Policies for programs in torch; the other formats are tested without it."""

from pathlib import Path

import numpy as np
import pytest

from lfiw import export, load_policy
from lfiw.runs.layout import policy_file
from lfiw.runs.policies import save_policies

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed; `make test-adapters` brings it."
)


MLP = {"gaussian.0": (3, 8), "gaussian.1": (8, 4)}
RESIDUAL = {
    f"bounded-gaussian.residual.{name}": shape
    for name, shape in {
        "embedding": (3, 8),
        "0.widening": (8, 32),
        "0.narrowing": (32, 8),
        "1.widening": (8, 32),
        "1.narrowing": (32, 8),
        "head": (8, 4),
    }.items()
}


@pytest.mark.parametrize("layers", [MLP, RESIDUAL], ids=["mlp", "residual"])
@pytest.mark.parametrize("normalised", [False, True])
def test_a_torch_program_acts_as_the_policy(
    tmp_path: Path, normalised: bool, layers: dict[str, tuple[int, int]]
) -> None:
    rng = np.random.default_rng(0)
    arrays = {"action_low": np.array([-1, 0]), "action_high": np.array([3, 1])}
    for name, shape in layers.items():
        arrays[f"{name}.weight"] = rng.standard_normal(shape)
        arrays[f"{name}.bias"] = rng.standard_normal(shape[1])
    if normalised:
        arrays |= {"observation.mean": np.arange(3), "observation.std": np.array([1, 2, 0.1])}
    plain = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
    save_policies(tmp_path, {0: plain}, {})
    assert policy_file(tmp_path, 0).is_file()
    path = export(tmp_path, "torch", tmp_path / "policy.pt2")
    program = torch.export.load(path).module()  # as docs/guides/deploy.md says
    for rows in (1, 5):
        obs = 3 * rng.standard_normal((rows, 3)).astype(np.float32)
        expected, _ = load_policy(tmp_path).predict(obs)
        np.testing.assert_allclose(program(torch.from_numpy(obs)).detach(), expected, atol=1e-5)
