"""TorchRL's replay buffers with the strategies as their sampler."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

pytest.importorskip("torchrl", reason="TorchRL is not installed; `make test-adapters` brings it.")

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

from lfiw.adapters.torchrl import ReplaySampler
from lfiw.adapters.torchrl_sampler import PATIENCE
from lfiw.errors import InputError, RunError
from lfiw.replay.cer import CerConfig
from lfiw.replay.ere import EreConfig
from lfiw.replay.faded_per import FadedPerConfig
from lfiw.replay.inverse_age import InverseAgeConfig
from lfiw.replay.lap import LapConfig
from lfiw.replay.per import PerConfig
from lfiw.replay.recency import RecencyConfig

DRAWS = 40_000


def make_buffer(replay: Any, **options: Any) -> TensorDictReplayBuffer:
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(40), sampler=ReplaySampler(replay, **options), batch_size=DRAWS
    )


def fill(buffer: TensorDictReplayBuffer, first: int, end: int) -> None:
    numbers = torch.arange(first, end)
    buffer.add(TensorDict({"number": numbers[0]}, []))
    buffer.extend(TensorDict({"number": numbers[1:]}, [len(numbers) - 1]))


AGES = np.arange(40)
ERRORS = np.linspace(9, 0.2, 40)  # by age
CHANCES = [
    ("uniform", np.ones(40)),
    (RecencyConfig(rate=0.1, floor=0.2), np.maximum(0.2, 0.9**AGES)),
    (InverseAgeConfig(offset=2.0), 1 / (AGES + 2)),
    (EreConfig(eta=0.999, min_window=5, cycle_updates=1), AGES < 14),  # 40 * 0.999^1000 = 14.7
    (PerConfig(alpha=0.7), (ERRORS + 1e-6) ** 0.7),
    (LapConfig(alpha=0.8), np.maximum(ERRORS, 1) ** 0.8),
    (
        FadedPerConfig(alpha=0.8, floor=0.2, fade_steps=20),
        np.maximum(ERRORS, 1) ** 0.8 * 0.2 ** np.minimum(AGES / 20, 1),
    ),
]


@pytest.mark.parametrize(("replay", "chances"), CHANCES, ids=str)
def test_draws_follow_the_formula(replay: Any, chances: np.ndarray) -> None:
    """After 70 transitions in 40 slots: those of 30 to 69."""
    buffer = make_buffer(replay)
    fill(buffer, 0, 25)
    buffer.sample(5)
    fill(buffer, 25, 70)
    buffer.sample(5)
    # Slot of each age: the newest is number 69 in slot 29.
    buffer.update_priority(torch.tensor((29 - AGES) % 40), torch.tensor(ERRORS))
    batch = buffer.sample()
    counts = np.bincount(69 - batch["number"].numpy(), minlength=40)
    expected = chances / chances.sum()
    possible = expected > 0
    assert not counts[~possible].any()
    assert chisquare(counts[possible], DRAWS * expected[possible]).pvalue > 1e-3
    weights = np.ones(DRAWS)
    if isinstance(replay, PerConfig):
        weights = (40 * expected[69 - batch["number"].numpy()]) ** -0.4
        weights /= weights.max()
    np.testing.assert_allclose(batch["priority_weight"], weights, rtol=1e-5)


def test_cer_gives_each_its_turn() -> None:
    buffer = make_buffer(CerConfig())
    fill(buffer, 0, 30)
    buffer.sample(5)
    fill(buffer, 30, 33)
    assert [buffer.sample(5)["number"][0].item() for _ in range(4)] == [32, 31, 30, 32]


def test_progress_is_the_users_to_set() -> None:
    buffer = make_buffer(PerConfig(beta=0.4, beta_end=1.0))
    fill(buffer, 0, 10)
    buffer.sampler.progress = 0.5
    buffer.sample(5)
    assert buffer.sampler.metrics()["beta"] == pytest.approx(0.7)


def test_state_goes_on_exactly(tmp_path: Any) -> None:
    one = make_buffer("lap")
    fill(one, 0, 50)
    one.sample(5)
    one.update_priority(torch.arange(40), torch.linspace(0, 9, 40))
    fill(one, 50, 53)
    two, three = make_buffer("lap", seed=5), make_buffer("lap", seed=6)
    fill(two, 0, 2)
    two.load_state_dict(one.state_dict())
    one.sampler.dumps(tmp_path)
    three.sampler.loads(tmp_path)
    fill(three, 0, 53)
    three.sampler.loads(tmp_path)
    found = [buffer.sample(50)["index"] for buffer in (one, two, three)]
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    with pytest.raises(InputError, match="This state is of"):
        make_buffer("per").sampler.loads(tmp_path)


def test_a_storage_that_is_filled_already_and_one_that_is_emptied() -> None:
    buffer = make_buffer("uniform")
    fill(buffer, 0, 30)
    buffer.set_sampler(ReplaySampler("lap"))
    assert set(buffer.sample()["number"].tolist()) == set(range(30))
    buffer.empty()
    fill(buffer, 30, 35)
    assert set(buffer.sample()["number"].tolist()) == set(range(30, 35))


def test_bad_use_gets_a_sentence() -> None:
    with pytest.raises(InputError, match=r"'lfiw' is no sampler: .* transform=LfiwWeights"):
        ReplaySampler("lfiw")
    with pytest.raises(InputError, match="'pal' is no sampler: it changes the loss alone"):
        ReplaySampler("pal")
    with pytest.raises(InputError, match="The storage is empty"):
        ReplaySampler("lap").sample(LazyTensorStorage(4), 2)
    buffer = make_buffer("lap")
    fill(buffer, 0, 9)
    for _ in range(PATIENCE):
        buffer.sample(2)
    with pytest.raises(RunError, match="no TD errors came back: after the loss, call"):
        buffer.sample(2)
    buffer.update_priority(torch.tensor([0]), torch.tensor([2.0]))
    buffer.sample(2)
    with pytest.raises(InputError, match="written round and round"):
        skipping = ReplaySampler("ere")
        skipping.extend(torch.tensor([0, 2]))
        skipping._listen(skipping._make(4), 2, 4)
