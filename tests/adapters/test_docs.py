"""The recipes of docs/adapters.md run as they are printed."""

import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed; `make test-adapters` brings it."
)

TEXT = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text()


def code(heading: str) -> str:
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))


def test_torch_recipe() -> None:
    names = {
        "obs_dim": 3,
        "action_dim": 1,
        "obs": np.ones(3, np.float32),
        "action": np.ones(1, np.float32),
        "batch_obs": torch.randn(8, 3),
        "batch_action": torch.randn(8, 1),
        "q": torch.randn(8, requires_grad=True),
        "target": torch.randn(8),
    }
    exec(code("Settings") + code("Any other code in torch"), names)
    assert names["weights"].shape == (8,) and names["critic_loss"].requires_grad


def test_jax_recipe() -> None:
    draw = np.random.default_rng(0)
    slow, fast = draw.standard_normal((2, 8, 4), np.float32)
    names = {
        "obs_dim": 3,
        "action_dim": 1,
        "slow": slow,
        "fast": fast,
        "q": draw.standard_normal(8),
        "target": draw.standard_normal(8),
    }
    exec(code("Any other code in jax"), names)
    assert float(np.mean(names["weights"])) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "heading", ["Stable-Baselines3", "SBX", "TorchRL", "Tianshou", "Other strategies"]
)
def test_names_in_the_text_exist(heading: str) -> None:
    imports = [line for line in code(heading).splitlines() if line.startswith("from lfiw")]
    assert imports
    for line in imports:
        exec(line, {})
        for others in re.findall(r"# or ([\w, ]+)", line):
            for name in re.findall(r"\w+", others):
                exec(f"from {line.split()[1]} import {name}", {})
