"""The torch estimator, held to the jax one and to numbers worked by hand."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed; `make test-adapters` brings it."
)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

from lfiw import ratio as jax_ratio  # noqa: E402
from lfiw.adapters.torch import Lfiw  # noqa: E402
from lfiw.adapters.torch_ratio import (  # noqa: E402
    DIVERGENCES,
    Ratio,
    ratio_weights,
    with_floor,
)
from lfiw.errors import InputError  # noqa: E402
from lfiw.networks import Layer, Mlp  # noqa: E402
from lfiw.replay.lfiw import LfiwConfig  # noqa: E402

OBS, ACTION, BATCH = 3, 2, 32
SMALL = LfiwConfig(hidden_sizes=(16, 16), fast_size=50, warmup_env_steps=0)


def batches(updates: int, seed: int = 0) -> np.ndarray:
    """Slow and fast rows [updates, 2, BATCH, OBS + ACTION] that differ in their mean."""
    data = np.random.default_rng(seed).standard_normal(
        (updates, 2, BATCH, OBS + ACTION), np.float32
    )
    data[:, 1] += 0.5
    return data


def copy_network(network: torch.nn.Sequential) -> Mlp:
    return tuple(
        Layer(
            weight=jnp.array(layer.weight.detach().numpy().T),
            bias=jnp.array(layer.bias.detach().numpy()),
        )
        for layer in network
        if isinstance(layer, torch.nn.Linear)
    )


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("transform", ["sigmoid", "power"])
@pytest.mark.parametrize(
    ("double", "tolerance"), [(False, 1e-4), (True, 1e-8)], ids=["float32", "float64"]
)
def test_same_numbers_as_jax_step_by_step(
    divergence: str, transform: str, double: bool, tolerance: float
) -> None:
    """Loss, logits, weights and parameters after every one of 20 steps. Adam blows up the
    rounding of small gradients; with twice the digits hardly anything remains of it."""
    config = replace(SMALL, divergence=divergence, transform=transform)
    kind = torch.float64 if double else torch.float32
    ours = Ratio(config, OBS + ACTION, 3e-3, torch.Generator().manual_seed(0))
    ours.network.to(kind)
    close = {"rtol": tolerance, "atol": tolerance / 10}
    with jax.enable_x64(double):
        other = jax_ratio.make_ratio(config, OBS + ACTION, 3e-3)
        network = copy_network(ours.network)
        state = jax_ratio.RatioState(network, optax.adam(3e-3).init(network))
        update = jax.jit(other.update)
        for data in batches(20):
            slow, fast = torch.tensor(data, dtype=kind)
            logits, fast_logits = ours.update(slow, fast)
            state, *theirs = update(state, jnp.array(slow), jnp.array(fast))
            np.testing.assert_allclose(logits, theirs[0], **close)
            np.testing.assert_allclose(fast_logits, theirs[1], **close)
            loss = other.metrics(*theirs)["classifier_loss"]
            np.testing.assert_allclose(ours.bound(logits, fast_logits), loss, **close)
            np.testing.assert_allclose(
                ratio_weights(logits, 5.0, transform, 1.1),
                jax_ratio.ratio_weights(theirs[0], 5.0, transform, jnp.array(1.1)),
                rtol=tolerance / 10,
            )
            for mine, layer in zip(copy_network(ours.network), state.network, strict=True):
                np.testing.assert_allclose(mine.weight, layer.weight, **close)
                np.testing.assert_allclose(mine.bias, layer.bias, **close)
        assert np.abs(state.network[0].weight - network[0].weight).max() > 0.01


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_same_gradient_as_jax_for_extreme_logits(divergence: str) -> None:
    """Beyond the limit values stop growing but a gradient still pulls the logit back."""
    from lfiw.ratio.divergences import DIVERGENCES as JAX

    logits = np.float32([-60, -20.5, -1, 0, 1, 20.5, 60])
    for side in ("on_slow", "on_fast"):
        leaf = torch.tensor(logits, requires_grad=True)
        value = getattr(DIVERGENCES[divergence], side)(leaf)
        value.sum().backward()
        theirs = getattr(JAX[divergence], side)
        np.testing.assert_allclose(value.detach(), theirs(logits), rtol=1e-5)
        gradient = jax.grad(lambda z, f=theirs: jnp.sum(f(z)))(logits)
        np.testing.assert_allclose(leaf.grad, gradient, rtol=1e-5, atol=1e-20)


@pytest.mark.parametrize(
    ("transform", "temperature", "logits", "expected"),
    [
        # w = (1, 9), w^(1/2) = (1, 3), mean 2
        ("power", 2.0, [0.0, math.log(9)], [0.5, 1.5]),
        # sigmoid(0) = 1/2, sigmoid(log 3) = 3/4, mean 5/8
        ("sigmoid", 2.0, [0.0, 2 * math.log(3)], [0.8, 1.2]),
        ("power", 1.0, [math.inf, math.inf], [1.0, 1.0]),
        ("sigmoid", 1.0, [-math.inf, -math.inf], [1.0, 1.0]),
    ],
)
def test_weights_by_hand(
    transform: str, temperature: float, logits: list[float], expected: list[float]
) -> None:
    weights = ratio_weights(torch.tensor(logits), temperature, transform)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


@pytest.mark.parametrize("batch", [41, 97, 256])
def test_infinite_temperature_gives_ones_exactly(batch: int) -> None:
    for transform in ("sigmoid", "power"):
        weights = ratio_weights(torch.linspace(-50, 50, batch), 1e30, transform)
        assert torch.equal(weights, torch.ones(batch))


def filled(config: LfiwConfig = SMALL, rows: int = 80, **settings: object) -> Lfiw:
    lfiw = Lfiw(OBS, ACTION, config, **{"buffer_size": 1000} | settings)
    data = torch.tensor(batches(rows, seed=5)[:, 0, 0])
    lfiw.observe(data[:, :OBS], data[:, OBS:])
    return lfiw


def test_fast_memory_is_the_newest_transitions() -> None:
    """One by one, in small batches or at once: the last `fast_size` rows remain."""
    rows = torch.arange(70.0)[:, None].expand(70, OBS + ACTION)
    whole, single, parts = (
        Lfiw(OBS, ACTION, replace(SMALL, fast_size=8), buffer_size=100) for _ in range(3)
    )
    whole.observe(rows[:, :OBS], rows[:, OBS:])
    for row in rows.numpy():
        single.observe(row[:OBS], row[OBS:])
    for part in rows.split(7):
        parts.observe(part[:, :OBS], part[:, OBS:])
    for lfiw in (whole, single, parts):
        assert lfiw.env_steps == 70
        assert sorted(lfiw.fast[:, 0].tolist()) == list(range(62, 70))


def test_weights_learn_which_transitions_are_new() -> None:
    """Old transitions lie around -1, new ones around +1."""
    plain = replace(SMALL, min_effective_sample_size=0.0)
    config = replace(plain, transform="power", temperature=1.0)
    lfiw = Lfiw(OBS, ACTION, config, buffer_size=1000, learning_rate=1e-2)
    noise = torch.Generator().manual_seed(1)
    new = 1 + 0.1 * torch.randn(50, OBS + ACTION, generator=noise)
    lfiw.observe(new[:, :OBS], new[:, OBS:])
    centres = torch.tensor([-1.0, 1.0]).repeat(BATCH // 2)[:, None]
    for _ in range(100):
        batch = centres + 0.1 * torch.randn(BATCH, OBS + ACTION, generator=noise)
        weights = lfiw.weights(batch[:, :OBS], batch[:, OBS:])
    # The slow memory is half new, so the true ratio is 2 there and 0 elsewhere.
    np.testing.assert_allclose(weights[::2], 0.0, atol=0.1)
    np.testing.assert_allclose(weights[1::2], 2.0, atol=0.3)
    assert weights.shape == (BATCH,) and not weights.requires_grad
    assert lfiw.metrics()["balanced_accuracy"] > 0.7
    assert lfiw.metrics()["max_weight"] == pytest.approx(2.0, abs=0.3)
    assert lfiw.metrics()["effective_sample_size"] == pytest.approx(0.5, abs=0.05)


def test_warmup_gives_ones_but_trains() -> None:
    lfiw = filled(replace(SMALL, warmup_env_steps=81))
    before = lfiw.ratio.network[0].weight.clone()
    batch = torch.tensor(batches(1)[0, 0])
    assert torch.equal(lfiw.weights(batch[:, :OBS], batch[:, OBS:]), torch.ones(BATCH))
    assert not torch.equal(before, lfiw.ratio.network[0].weight)
    lfiw.observe(batch[0, :OBS], batch[0, OBS:])
    assert not torch.equal(lfiw.weights(batch[:, :OBS], batch[:, OBS:]), torch.ones(BATCH))


def test_global_random_numbers_are_untouched() -> None:
    torch.manual_seed(3)
    expected = torch.randn(4)
    torch.manual_seed(3)
    lfiw = filled(seed=7)
    batch = torch.tensor(batches(1)[0, 0])
    with torch.no_grad():  # where agents compute their targets
        lfiw.weights(batch[:, :OBS], batch[:, OBS:])
    assert torch.equal(torch.randn(4), expected)


def test_state_goes_on_exactly() -> None:
    """Through a file read without pickled code, into an estimator of another seed."""
    data = torch.tensor(batches(6)[:, 0])
    one = filled()
    for batch in data[:3]:
        one.weights(batch[:, :OBS], batch[:, OBS:])
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    two = Lfiw(OBS, ACTION, SMALL, buffer_size=1000, seed=99)
    two.load_state_dict(torch.load(file, weights_only=True))
    for batch in data[3:]:
        for lfiw in (one, two):
            lfiw.observe(batch[:2, :OBS], batch[:2, OBS:])
        weights = [lfiw.weights(batch[:, :OBS], batch[:, OBS:]) for lfiw in (one, two)]
        assert torch.equal(*weights)


def make(config: object = SMALL, buffer_size: int = 100) -> Lfiw:
    return Lfiw(3, 2, config, buffer_size=buffer_size)


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (lambda: make().weights(torch.zeros(4, 3), torch.zeros(4, 2)), "observe"),
        (lambda: make().observe(torch.zeros(4, 4), torch.zeros(4, 2)), r"\(4, 4\)"),
        (lambda: make().observe(torch.zeros(4, 3), torch.zeros(3, 2)), "4 observations"),
        (lambda: make(replace(SMALL, temperature=0.0)), "temperature must be above 0"),
        (lambda: make(replace(SMALL, fast_size=500), 400), "fast_size 500 must be below .* 400"),
        (lambda: make(replace(SMALL, weight_policy=True)), "leave weight_policy at its default"),
        (lambda: make({"temperature": 5.0}), "LfiwConfig"),
    ],
)
def test_bad_use_gets_a_sentence(use: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        use()


def test_the_size_of_the_memory_must_be_told() -> None:
    """None fits all: it bounds the fast memory and the ratio."""
    with pytest.raises(TypeError, match="buffer_size"):
        Lfiw(3, 2)


@pytest.mark.parametrize(
    ("settings", "stored", "bound"),
    [
        ({"buffer_size": 60}, None, 60 / 50),  # 80 were observed, 60 fit, 50 are the fast memory
        ({"buffer_size": 1000}, None, 80 / 50),
        ({"buffer_size": 1000}, 70, 70 / 50),
        ({"buffer_size": 1000}, 40, 1.0),
    ],
)
def test_the_clip_follows_the_stored_transitions(
    settings: dict[str, int], stored: int | None, bound: float
) -> None:
    config = replace(SMALL, clip_ratio=True, transform="power", temperature=1.0)
    lfiw = filled(config, **settings)
    # Two rows with a ratio beyond every bound, two with a ratio of e^-1.
    logits = torch.tensor([9.0, -1.0, 9.0, -1.0])
    lfiw.ratio.update = lambda slow, fast: (logits, logits)
    weights = lfiw.weights(torch.zeros(4, OBS), torch.zeros(4, ACTION), stored)
    assert (weights[0] / weights[1]).item() == pytest.approx(bound * math.e, rel=1e-5)


def test_the_learning_rate_follows_the_critics() -> None:
    """Unless the config has one."""
    free, fixed = filled(SMALL), filled(replace(SMALL, learning_rate=0.25))
    for lfiw in (free, fixed):
        lfiw.learning_rate = 0.5
    assert (free.learning_rate, fixed.learning_rate) == (0.5, 0.25)
    assert free.ratio.optimiser.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("floor", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("spread", [0.0, 1.0, 50.0, 1e30])
def test_the_floor_is_that_of_jax(floor: float, spread: float) -> None:
    logits = spread * np.random.default_rng(0).standard_normal(64).astype(np.float32)
    raw = ratio_weights(torch.tensor(logits), 5.0, "sigmoid")
    weights, trust = with_floor(raw, floor)
    theirs, their_trust = jax_ratio.with_floor(jnp.array(raw.numpy()), floor)
    np.testing.assert_allclose(weights, theirs, rtol=1e-6)
    np.testing.assert_allclose(trust, their_trust, rtol=1e-6)


def test_the_estimator_keeps_the_floor_and_tells_what_it_did() -> None:
    """Sharp weights, whose effective sample size is far below the floor."""
    sharp = replace(SMALL, temperature=0.1)
    data = batches(60)
    found = {}
    for floor in (0.0, 0.6, 1.0):
        config = replace(sharp, min_effective_sample_size=floor)
        lfiw = Lfiw(OBS, ACTION, config, buffer_size=1000, learning_rate=3e-3)
        for slow, fast in data:
            lfiw.observe(fast[:, :OBS], fast[:, OBS:])
            weights = lfiw.weights(slow[:, :OBS], slow[:, OBS:])
        found[floor] = weights, lfiw.metrics()
    weights, metrics = found[0.6]
    assert metrics["raw_effective_sample_size"] < 0.5
    assert metrics["effective_sample_size"] == pytest.approx(0.6, rel=1e-4)
    assert 0 < metrics["trust"] < 1
    assert weights.mean().item() == pytest.approx(1.0, rel=1e-5)
    assert weights.min().item() >= 1 - metrics["trust"] - 1e-6
    # The network does not see the floor; 1 is uniform replay.
    for other in (0.0, 1.0):
        key = "raw_effective_sample_size"
        assert found[other][1][key] == pytest.approx(metrics[key], rel=1e-5)
    assert found[0.0][1]["trust"] == 1
    assert torch.equal(found[1.0][0], torch.ones(BATCH))
