"""Tianshou's agents on buffers that draw by the other strategies."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

pytest.importorskip("tianshou", reason="Tianshou is not installed; `make test-adapters` brings it.")

import torch
from tianshou.data import Batch

from lfiw.adapters.tianshou import StrategyReplayBuffer, StrategyVectorReplayBuffer
from lfiw.adapters.tianshou_strategies import InsertionOrder
from lfiw.errors import InputError
from lfiw.replay.cer import CerConfig
from lfiw.replay.ere import EreConfig
from lfiw.replay.inverse_age import InverseAgeConfig
from lfiw.replay.per import PerConfig
from lfiw.replay.recency import RecencyConfig

DRAWS = 40_000


def fill(buffer: Any, rows: int, first: int = 0) -> Any:
    """The observation of a transition is the number of transitions before it."""
    is_vector = isinstance(buffer, StrategyVectorReplayBuffer)
    leading = (2,) if is_vector else ()
    for row in range(first, rows):
        number = 2.0 * row + np.arange(2) if is_vector else np.float64(row)
        buffer.add(
            Batch(
                obs=number[..., None],
                act=np.zeros((*leading, 1), np.float32),
                rew=np.zeros(leading),
                terminated=np.zeros(leading, bool),
                truncated=np.zeros(leading, bool),
                obs_next=number[..., None],
                info=Batch(),
            )
        )
    return buffer


AGES = np.arange(40)
ERRORS = np.linspace(9, 0.2, 40)  # by age
CHANCES = [
    ("uniform", np.ones(40)),
    (RecencyConfig(rate=0.1, floor=0.2), np.maximum(0.2, 0.9**AGES)),
    (InverseAgeConfig(offset=2.0), 1 / (AGES + 2)),
    (EreConfig(eta=0.999, min_window=5, cycle_updates=1), AGES < 14),  # 40 * 0.999^1000 = 14.7
    (PerConfig(alpha=0.7), (ERRORS + 1e-6) ** 0.7),
]


@pytest.mark.parametrize("envs", [1, 2])
@pytest.mark.parametrize(("replay", "chances"), CHANCES, ids=str)
def test_draws_follow_the_formula(replay: Any, chances: np.ndarray, envs: int) -> None:
    """After 70 transitions in 40 slots: those of 30 to 69. With two environments the first 20 slots
    are one's."""
    if envs == 1:
        buffer = fill(StrategyReplayBuffer(40, replay=replay), 70)
        slots = (69 - AGES) % 40
    else:
        buffer = fill(StrategyVectorReplayBuffer(40, 2, replay=replay), 35)
        slots = (69 - AGES) // 2 % 20 + 20 * ((69 - AGES) % 2)
    buffer.sample(5)
    buffer.update_weight(slots, torch.tensor(-ERRORS))
    batch, drawn = buffer.sample(DRAWS)
    ages = 69 - batch.obs[:, 0].astype(int)
    np.testing.assert_array_equal(slots[ages], drawn)
    counts = np.bincount(ages, minlength=40)
    expected = chances / chances.sum()
    possible = expected > 0
    assert not counts[~possible].any()
    assert chisquare(counts[possible], DRAWS * expected[possible]).pvalue > 1e-3
    weights = np.ones(DRAWS)
    if isinstance(replay, PerConfig):
        weights = (40 * expected[ages]) ** -0.4
        weights /= weights.max()
    np.testing.assert_allclose(batch.weight, weights, rtol=1e-5)


def test_environments_at_different_rates() -> None:
    """Slots 0 to 2 are one environment's and 3 to 5 another's, which is written once in a while."""
    insertion = InsertionOrder(6)
    written = [0, 3, 1, 2, 0, 1, 4, 2, 0, 1, 2, 0, 1, 2, 0, 1]
    insertion.write(np.array(written))
    assert insertion.order(5).slots(torch.arange(5)).tolist() == [1, 0, 2, 4, 3]
    for slot in (5, 2, 3):
        insertion.write(np.array([slot]))
    assert insertion.order(6).slots(torch.arange(6)).tolist() == [3, 2, 5, 1, 0, 4]


def test_cer_gives_each_its_turn() -> None:
    buffer = fill(StrategyVectorReplayBuffer(40, 2, replay=CerConfig()), 5)
    buffer.sample(4)
    fill(buffer, 7, first=5)  # transitions 10 to 13
    assert [buffer.sample(4)[0].obs[0, 0] for _ in range(5)] == [13, 12, 11, 10, 13]


def test_cer_where_more_came_than_the_buffer_holds() -> None:
    buffer = fill(StrategyReplayBuffer(4, replay=CerConfig()), 7)
    assert [buffer.sample(2)[0].obs[0, 0] for _ in range(8)] == [6, 5, 4, 3, 3, 3, 3, 6]


def test_saved_buffers_go_on_exactly(tmp_path: Path) -> None:
    buffer = fill(StrategyReplayBuffer(40, replay="per"), 50)
    buffer.sample(16)
    buffer.update_weight(np.arange(40), np.linspace(-3, 3, 40))
    buffer.save_hdf5(str(tmp_path / "buffer.hdf5"))
    copies = [
        pickle.loads(pickle.dumps(buffer)),
        StrategyReplayBuffer.load_hdf5(str(tmp_path / "buffer.hdf5")),
    ]
    expected = buffer.sample(16)[1]
    for copy in copies:
        np.testing.assert_array_equal(copy.sample(16)[1], expected)


def test_progress_and_reset() -> None:
    buffer = fill(StrategyReplayBuffer(40, replay="per"), 50)
    buffer.progress = 0.5
    buffer.sample(4)
    assert buffer.draws.strategy.metrics()["beta"] == pytest.approx(0.7)
    buffer.reset()
    fill(buffer, 63, first=60)
    assert set(buffer.sample(200)[0].obs[:, 0]) == {60, 61, 62}


def test_bad_use_gets_a_sentence() -> None:
    with pytest.raises(
        InputError, match="'lap' replaces the critics' squared loss, which is fixed"
    ):
        StrategyReplayBuffer(40, replay="lap")
    with pytest.raises(InputError, match="LfiwReplayBuffer"):
        StrategyReplayBuffer(40, replay="lfiw")
    with pytest.raises(InputError, match="leave out stack_num"):
        StrategyReplayBuffer(40, replay="per", stack_num=2)
    with pytest.raises(InputError, match="The buffer is empty"):
        StrategyReplayBuffer(40, replay="per").sample(4)
    with pytest.raises(InputError, match="PPO"):
        StrategyReplayBuffer(40, replay="per").sample(0)
