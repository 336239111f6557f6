"""What a strategy has the critics minimise reaches every agent's critics."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import BATCH, SPEC, quick_jit, random_rows, small, update_agent

from lfiw.agents import AGENTS, make_agent
from lfiw.replay.base import HUBER
from lfiw.types import SQUARES, Sample, TdLoss, unpack_rows

agents = pytest.mark.parametrize("kind", AGENTS.values(), ids=lambda kind: kind.name)


def updated(kind: type[Any], td_loss: TdLoss, weight: float = 1.0, **settings: Any) -> Any:
    """Critics, TD errors and metrics after one update of small rewards."""
    agent = make_agent(small(kind, **settings), SPEC, BATCH, td_loss)
    batch = unpack_rows(jnp.asarray(0.1 * random_rows(0, BATCH)), SPEC)
    ones = jnp.ones(BATCH)
    sample = Sample(batch, jnp.arange(BATCH), weight * ones, ones)

    def update(key: Any) -> Any:
        state, td_errors, metrics = update_agent(agent, agent.init(key), sample, key, 0)
        return state.critics, td_errors, metrics

    return quick_jit(update)(jax.random.key(0))


def assert_close(one: Any, other: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), one, other)


@agents
def test_emphasis_does_what_weights_do(kind: type[Any]) -> None:
    by_row = jnp.linspace(0.5, 2.0, BATCH)
    emphasised = updated(kind, TdLoss(SQUARES.of_errors, lambda errors: by_row + 0 * errors))
    assert_close(emphasised, updated(kind, SQUARES, by_row))
    plain = updated(kind, SQUARES)
    assert abs(plain[2]["critic_loss"] - emphasised[2]["critic_loss"]) > 1e-6


@agents
def test_emphasis_sees_the_errors_that_strategies_see(kind: type[Any]) -> None:
    """Losses times the squared errors, summed as the critics' loss is."""
    squares = TdLoss(lambda errors: 1.0 + 0 * errors, lambda errors: errors**2)
    _, td_errors, metrics = updated(kind, squares, **categorical(kind, False))
    np.testing.assert_allclose(
        metrics["critic_loss"], np.sum(np.mean(td_errors**2, axis=-1)), rtol=1e-4
    )


def categorical(kind: type[Any], value: bool) -> dict[str, bool]:
    return {"categorical": value} if hasattr(kind, "categorical") else {}


def without_norms(kind: type[Any]) -> bool:
    return not hasattr(kind, "categorical") or hasattr(kind, "batch_norm")


# With weights of norm one errors are never small.
@pytest.mark.parametrize(
    "kind", list(filter(without_norms, AGENTS.values())), ids=lambda kind: kind.name
)
def test_hubers_loss_is_half_the_square_of_small_errors(kind: type[Any]) -> None:
    settings = categorical(kind, False)
    if settings:
        settings |= {"scale_rewards": False, "batch_norm": False, "unit_norm": False}
    critics, td_errors, _ = updated(kind, HUBER, 2.0, **settings)
    assert np.max(np.abs(td_errors)) < 1
    assert_close(critics, updated(kind, SQUARES, **settings)[0])


@pytest.mark.parametrize("name", ["xqc", "flashsac"])
def test_a_categorical_critic_keeps_its_own_loss(name: str) -> None:
    kind = AGENTS[name]
    assert_close(updated(kind, HUBER), updated(kind, SQUARES))
