import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import make_context, random_rows
from scipy.stats import chisquare

from lfiw.errors import InputError
from lfiw.ratio import RatioConfig, make_ratio
from lfiw.replay.base import Replay
from lfiw.replay.lfiw import LfiwConfig, make_lfiw
from lfiw.replay.lfiw_priority import SMALLEST, LfiwPriorityState
from lfiw.replay.per import PerConfig
from lfiw.replay.ring import pairs_at
from lfiw.replay.sum_tree import set_priorities
from lfiw.types import Clock, EnvSpec

SPEC = EnvSpec(obs_size=1, action_size=1)
WARM, COLD = (Clock(jnp.int32(steps), jnp.int32(0)) for steps in (100, 99))


def make(floor: float = 0.0, batch_size: int = 64, **settings: object) -> Replay:
    config = LfiwConfig(
        use="priority",
        min_effective_sample_size=floor,
        warmup_env_steps=100,
        fast_size=10,
        hidden_sizes=(8,),
        **settings,
    )
    return make_lfiw(config, make_context(SPEC, 64, batch_size=batch_size))


def filled(replay: Replay, priorities: list[float] | None = None) -> LfiwPriorityState:
    state = replay.add(replay.init(jax.random.key(0)), random_rows(0, 40, SPEC))
    if priorities is None:
        return state
    tree = set_priorities(state.drawing.tree, jnp.arange(40), jnp.array(priorities))
    return state._replace(drawing=state.drawing._replace(tree=tree))


# The last ten rows are four times as likely: the mean is 7/4, and that of squares 19/4.
PRIORITIES = [1.0] * 30 + [4.0] * 10
SPREAD = (19 / 4) / (7 / 4) ** 2 - 1


@pytest.mark.parametrize("floor", [0.0, 0.8, 1.0])
def test_draws_are_a_mixture_above_the_floor(floor: float) -> None:
    count = 200_000
    replay = make(floor, batch_size=count)
    state = filled(replay, PRIORITIES)
    _, sample, trace = replay.sample(state, replay.draw(jax.random.key(1)), COLD)
    trust = 1.0 if floor == 0 else np.sqrt((1 / floor - 1) / SPREAD)
    np.testing.assert_allclose(trace["spread"], SPREAD, rtol=0.02)
    np.testing.assert_allclose(trace["trust"], trust, rtol=0.02)
    shares = np.array(PRIORITIES) / np.sum(PRIORITIES)
    expected = float(trace["trust"]) * shares + (1 - float(trace["trust"])) / 40
    drawn = np.bincount(sample.slots, minlength=40)
    assert chisquare(drawn, count * expected / np.sum(expected)).pvalue > 1e-3
    metrics = replay.metrics(trace)
    raw = metrics["raw_effective_sample_size"]
    np.testing.assert_allclose(raw, 1 / (1 + SPREAD), rtol=0.02)
    np.testing.assert_allclose(metrics["effective_sample_size"], max(floor, float(raw)), rtol=0.02)
    np.testing.assert_array_equal(sample.weights, 1)


@pytest.mark.parametrize("transform", ["sigmoid", "power"])
def test_what_is_drawn_is_refreshed_after_the_warm_up(transform: str) -> None:
    replay = make(transform=transform, temperature=0.01)  # logits are small at first
    state = filled(replay)
    noise = replay.draw(jax.random.key(1))
    cold, sample, _ = replay.sample(state, noise, COLD)
    np.testing.assert_array_equal(cold.drawing.tree[-1], state.drawing.tree[-1])
    warm, sample, _ = replay.sample(state, noise, WARM)
    drawn = np.unique(sample.slots)
    others = np.setdiff1d(np.arange(40), drawn)
    assert len(drawn) > 20 and len(others) > 2
    np.testing.assert_array_equal(warm.drawing.tree[-1][others], 1)
    network = replay.networks(state)
    pairs = np.asarray(pairs_at(state.drawing.ring, jnp.asarray(drawn), SPEC))
    hidden = np.maximum(pairs @ network["ratio.0.weight"] + network["ratio.0.bias"], 0)
    logits = (hidden @ network["ratio.1.weight"] + network["ratio.1.bias"])[:, 0] / 0.01
    # Relative to a ratio of one, where the sigmoid is a half.
    expected = np.exp(logits) if transform == "power" else 2 / (1 + np.exp(-logits))
    assert np.std(expected) > 0.02
    np.testing.assert_allclose(
        warm.drawing.tree[-1][drawn], np.maximum(expected, SMALLEST), rtol=1e-3
    )


def refreshed(replay: Replay, factor: float) -> np.ndarray:
    """Priorities of what was drawn, by a network of larger logits."""
    state = filled(replay)
    network = jax.tree.map(lambda array: factor * array, state.ratio.network)
    state = state._replace(ratio=state.ratio._replace(network=network))
    warm, sample, _ = replay.sample(state, replay.draw(jax.random.key(1)), WARM)
    return np.asarray(warm.drawing.tree[-1][sample.slots])


def test_priorities_have_bounds() -> None:
    priorities = refreshed(make(transform="power"), 1e4)
    np.testing.assert_allclose(np.unique(priorities)[[0, -1]], [1e-3, 1e3])
    # 40 stored and a fast memory of 10: no transition is more than 4 times as likely.
    clipped = refreshed(make(transform="power", temperature=1.0, clip_ratio=True), 1e4)
    np.testing.assert_allclose(np.unique(clipped)[[0, -1]], [1e-3, 4], rtol=1e-6)


def test_the_network_learns_from_the_memory_and_its_newest() -> None:
    """Not from what is drawn."""
    replay = make()
    state = filled(replay, PRIORITIES)
    noise = replay.draw(jax.random.key(1))
    learned, sample, _ = replay.sample(state, noise, WARM)
    newest_first = (39 - np.asarray(noise.slow) % 40, 39 - np.asarray(noise.fast) % 10)
    assert not np.array_equal(newest_first[0], sample.slots)
    slow, fast = (pairs_at(state.drawing.ring, slots, SPEC) for slots in newest_first)
    ratio = make_ratio(RatioConfig(hidden_sizes=(8,)), 2, make_context().agent_learning_rate)
    expected, _, _ = ratio.update(state.ratio, slow, fast)
    for one, other in zip(*map(jax.tree.leaves, (learned.ratio, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_what_it_does_not_go_with_is_refused() -> None:
    for settings in ({"over": PerConfig()}, {"weight_policy": True}):
        with pytest.raises(InputError, match=r"replay\.use=priority draws by itself"):
            LfiwConfig(use="priority", **settings).check(100_000)
    LfiwConfig(use="priority").check(100_000)
