"""The strategies in torch, against those in jax on the same noise."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed; `make test-adapters` brings it."
)

from programs import make_context, random_rows  # noqa: E402

from lfiw.adapters.drawing import Order  # noqa: E402
from lfiw.adapters.drawing_by_ratio import ByRatio  # noqa: E402
from lfiw.adapters.strategies import STRATEGIES, as_replay, make_strategy  # noqa: E402
from lfiw.adapters.sum_tree import SumTree  # noqa: E402
from lfiw.errors import InputError  # noqa: E402
from lfiw.replay import REPLAYS, make_replay  # noqa: E402
from lfiw.replay.cer import CerConfig  # noqa: E402
from lfiw.replay.ere import EreConfig  # noqa: E402
from lfiw.replay.faded_per import FadedPerConfig  # noqa: E402
from lfiw.replay.inverse_age import InverseAgeConfig  # noqa: E402
from lfiw.replay.lap import LapConfig  # noqa: E402
from lfiw.replay.lfiw import LfiwConfig  # noqa: E402
from lfiw.replay.pal import PalConfig  # noqa: E402
from lfiw.replay.per import PerConfig  # noqa: E402
from lfiw.replay.recency import RecencyConfig  # noqa: E402
from lfiw.replay.sum_tree import set_priorities  # noqa: E402
from lfiw.replay.uniform import UniformConfig  # noqa: E402
from lfiw.types import Clock, EnvSpec  # noqa: E402

SPEC = EnvSpec(obs_size=1, action_size=1)
CAPACITY, BATCH = 700, 256

CONFIGS = [
    UniformConfig(),
    PerConfig(alpha=0.7, beta=0.3, beta_end=0.9),
    EreConfig(eta=0.9985, eta_end=0.9999, min_window=20, cycle_updates=7),
    RecencyConfig(rate=0.01, floor=0.2),
    RecencyConfig(rate=1e-3, floor=0.0),
    InverseAgeConfig(offset=3.0),
    CerConfig(),
    LapConfig(alpha=0.5),
    PalConfig(alpha=0.5),
    FadedPerConfig(alpha=0.5, floor=0.3, fade_steps=150),
    FadedPerConfig(floor=1.0),
]


def as_torch(noise: Any) -> Any:
    """Bits as integers that torch can divide; uniforms keep their precision."""

    def convert(values: jax.Array) -> Any:
        array = np.array(values)
        return torch.from_numpy(array.astype(np.int64) if array.dtype == np.uint32 else array)

    return jax.tree.map(convert, noise)


def test_every_twin_is_tested() -> None:
    assert set(STRATEGIES) == {config.name for config in CONFIGS}
    assert set(STRATEGIES) <= set(REPLAYS)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
def test_torch_equals_jax(config: Any) -> None:
    """Slots, weights, priorities and emphasis over some updates, also when the ring has come
    round."""
    context = make_context(SPEC, CAPACITY, batch_size=BATCH)
    theirs, ours = make_replay(config, context), make_strategy(config, CAPACITY)
    state = theirs.init(jax.random.key(0))
    draw_errors = np.random.default_rng(0)
    written = drawn_together = 0
    for update, count in enumerate([300, 1, 3, 0, 500, 2, 0, 0]):
        if count:
            state = theirs.add(state, random_rows(update, count, SPEC))
        written += count
        order = Order(CAPACITY, written % CAPACITY, min(written, CAPACITY))
        ours.add(torch.arange(written - count, written) % CAPACITY, updates=count)

        clock = Clock(written, update, update / 10)
        noise = theirs.draw(jax.random.key(update))
        on_device = Clock(*(jnp.asarray(value) for value in clock))
        state, sample, trace = theirs.sample(state, noise, on_device)
        draw = ours.sample(as_torch(noise), order, clock)
        for name in trace.keys() & ours.trace.keys():  # the window, beta
            assert ours.trace[name] == pytest.approx(float(trace[name]), rel=1e-4)
        drawn_together += np.mean(np.asarray(sample.slots) == draw.slots.numpy())
        np.testing.assert_allclose(draw.weights, sample.weights, rtol=1e-4)

        errors = draw_errors.standard_cauchy((2, BATCH)).astype(np.float32)
        errors[0, 0] = np.nan if update == 1 else np.inf if update == 2 else 0.0
        state = theirs.feedback(state, sample, jnp.asarray(errors))
        ours.feedback(torch.tensor(np.array(sample.slots)).long(), torch.tensor(errors))
        emphasis = np.broadcast_to(theirs.td_loss.emphasis(jnp.asarray(errors)), errors.shape)
        np.testing.assert_allclose(ours.emphasis(torch.tensor(errors)), emphasis, rtol=1e-5)
        if hasattr(ours, "tree"):
            np.testing.assert_allclose(ours.tree.leaves, state.tree[-1], rtol=1e-5)
            assert ours.max_priority == pytest.approx(float(state.max_priority), rel=1e-5)
    # float32 and float64 round some draws to neighbours.
    assert drawn_together / 8 > 0.997
    losses = [theirs.td_loss.of_errors(jnp.float32(error)) for error in (0.5, 3.0)]
    assert losses == ([0.125, 2.5] if ours.has_huber_loss else [0.25, 9.0])


@pytest.mark.parametrize(
    ("added", "updates", "ages"),
    [(3, 3, [0, 1, 2, 0]), (6, 3, [0, 2, 4, 0]), (2, 4, [0, 0, 1, 1, 0]), (4, 1, [0, 0])],
)
def test_turns_of_what_is_new(added: int, updates: int, ages: list[int]) -> None:
    """As in jax, where the updates of a step are a setting."""
    cer = make_strategy(CerConfig(), 20)
    cer.add(torch.arange(10), 10)
    cer.sample(torch.zeros(2, dtype=torch.int64), Order(20, 10, 10), Clock(0, 0, 0.0))
    cer.add(torch.arange(10, 10 + added), updates)
    order = Order(20, 10 + added, 10 + added)
    for age in ages:
        slots = cer.sample(torch.zeros(2, dtype=torch.int64), order, Clock(0, 0, 0.0)).slots
        assert slots.tolist() == [10 + added - 1 - age, 10 + added - 1]


def test_ratios_as_priorities_equal_jax() -> None:
    """On the same noise and priorities: a mixture above the floor, and its statistics."""
    config = LfiwConfig(use="priority", min_effective_sample_size=0.8, hidden_sizes=(4,))
    theirs = make_replay(config, make_context(SPEC, CAPACITY, batch_size=BATCH))
    ours = ByRatio(config, CAPACITY)
    ratios = torch.rand(CAPACITY, generator=torch.Generator().manual_seed(0)) ** 4 * 2000
    ours.add(torch.arange(CAPACITY), 1)
    ours.refresh(torch.arange(CAPACITY), ratios)
    assert ours.max_priority == 1000 and ours.tree.leaves.max() == 1000  # the largest and smallest
    assert ours.tree.leaves[:CAPACITY].min() == pytest.approx(1e-3)

    state = theirs.add(theirs.init(jax.random.key(0)), random_rows(0, CAPACITY, SPEC))
    leaves = jnp.asarray(ours.tree.leaves[:CAPACITY].numpy(), jnp.float32)
    tree = set_priorities(state.drawing.tree, jnp.arange(CAPACITY), leaves)
    state = state._replace(drawing=state.drawing._replace(tree=tree))
    noise = theirs.draw(jax.random.key(1))
    _, sample, trace = theirs.sample(state, noise, Clock(jnp.int32(0), jnp.int32(0)))
    draw = ours.sample(as_torch(noise), Order(CAPACITY, 0, CAPACITY), Clock(0, 0, 0.0))
    metrics = theirs.metrics(trace)
    for name, value in ours.trace.items():
        assert float(value) == pytest.approx(float(metrics[name]), rel=1e-3)
    assert ours.trace["trust"] < 0.9
    assert np.mean(np.asarray(sample.slots) == draw.slots.numpy()) > 0.99


def test_tree_by_hand() -> None:
    """Priorities 1, 0, 2 and 5 of 8: their shares end at 1/8, 3/8 and 1."""
    tree = SumTree(torch.tensor([1.0, 0.0, 2.0, 5.0], dtype=torch.float64))
    points = torch.tensor([[0.0, 0.12, 0.13, 0.37, 0.38, 0.99]], dtype=torch.float64)
    assert tree.find(points).tolist() == [0, 0, 2, 2, 3, 3]
    tree.set(torch.tensor([3, 3, 0]), torch.tensor([0.5, 1.0, 0.0], dtype=torch.float64))
    assert tree.leaves[:4].tolist() == [0, 0, 2, 1]  # of duplicates the largest
    assert tree.find(points).tolist() == [2, 2, 2, 2, 2, 3]


def test_sums_of_a_large_tree() -> None:
    """300,000 slots on three levels: a slot is found by the middle of its share of 128, theirs of
    128 * 128, and so on."""
    leaves = torch.rand(300_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    tree = SumTree(torch.zeros_like(leaves))
    tree.set(torch.arange(300_000), leaves)
    slots = torch.tensor([0, 127, 128, 16_383, 16_384, 299_999])

    def middle(size: int) -> torch.Tensor:
        """Of groups of so many slots, among the 128 that have the same sum above them."""
        sums = torch.stack([part.sum() for part in leaves.split(size)])
        first = slots // size // 128 * 128
        found = []
        for group, start in zip((slots // size).tolist(), first.tolist(), strict=True):
            before, together = sums[start:group].sum(), sums[start : start + 128].sum()
            found.append((before + sums[group] / 2) / together)
        return torch.stack(found)

    points = torch.stack([middle(128 * 128), middle(128), middle(1)])
    assert torch.equal(tree.find(points), slots)


def test_slots_in_order_of_their_ages() -> None:
    """A ring of six whose next slot is 2: 1 and 0 are the newest, then 5; and a list."""
    assert Order(6, 2, 3).slots(torch.arange(3)).tolist() == [1, 0, 5]
    assert Order(6, 2, 3, torch.tensor([4, 0, 1])).slots(torch.arange(3)).tolist() == [1, 0, 4]


def test_bad_input_gets_a_sentence() -> None:
    with pytest.raises(InputError, match="Unknown replay 'lapp'; it may be uniform, per, ere"):
        as_replay("lapp")
    with pytest.raises(InputError, match=r"or given by its settings, such as .*, not 3"):
        as_replay(3)
    with pytest.raises(InputError, match="alpha must be at most 1"):
        as_replay(LapConfig(alpha=2))
    assert as_replay("lap") == LapConfig()


def test_a_strategy_without_a_twin_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of a user's own may be."""
    monkeypatch.delitem(STRATEGIES, "recency")
    for replay in ("recency", RecencyConfig()):
        with pytest.raises(InputError, match=r"replay='recency' has no twin in torch, .*, lfiw"):
            as_replay(replay)
    with pytest.raises(InputError, match="has no twin in torch"):
        make_strategy(RecencyConfig(), 4)
