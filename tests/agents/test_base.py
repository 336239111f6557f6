import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from programs import quick_jit, same_bits, update_agent

from lfiw.agents import AGENTS, make_agent
from lfiw.agents.base import ActorCritic, bellman_target, polyak, weighted_critic_loss
from lfiw.agents.flashsac import FlashSacConfig
from lfiw.agents.xqc import XqcConfig
from lfiw.networks import Layer, mlp
from lfiw.networks.normed import NormedMlp
from lfiw.types import EnvSpec, Sample, Transition

SPEC = EnvSpec(obs_size=2, action_size=1)
KEY = jax.random.key(1)
ONES = jnp.ones(4)
PLAIN: dict[type[Any], dict[str, Any]] = {
    XqcConfig: dict.fromkeys(("categorical", "scale_rewards", "batch_norm", "unit_norm"), False)
}
UNEVEN = jnp.array([3.0, 0.0, 0.5, 0.5])


def test_critic_loss_by_hand() -> None:
    td_errors = jnp.array([[1.0, -2.0], [3.0, 0.5]])
    # (2 * 1 + 0.5 * 4) / 2 + (2 * 9 + 0.5 * 0.25) / 2
    loss = weighted_critic_loss(jnp.square(td_errors), jnp.array([2.0, 0.5]))
    np.testing.assert_allclose(loss, 2.0 + 9.0625)


def test_unit_weights_leave_the_mean_squared_errors_of_both_critics() -> None:
    td_errors = jax.random.normal(KEY, (2, 7))
    unweighted = jax.value_and_grad(lambda td: jnp.sum(jnp.mean(jnp.square(td), axis=-1)))
    weighted = jax.value_and_grad(lambda td: weighted_critic_loss(jnp.square(td), jnp.ones(7)))
    assert same_bits(weighted(td_errors), unweighted(td_errors))


@pytest.mark.parametrize("shape", [(3, 1), (1,), (2, 3), ()])
def test_weights_of_another_shape_raise(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not match"):
        weighted_critic_loss(jnp.ones((2, 3)), jnp.ones(shape))


@pytest.mark.parametrize("column", [0, 1, 2])
def test_target_of_columns_raises(column: int) -> None:
    parts = [jnp.ones(3)] * 3
    parts[column] = jnp.ones((3, 1))
    reward, discount, next_value = parts
    with pytest.raises(ValueError, match="do not match"):
        bellman_target(reward, discount, 0.9, next_value)


def test_target_bootstraps_unless_terminated() -> None:
    reward, discount = jnp.array([1.0, 1.0]), jnp.array([1.0, 0.0])
    target = bellman_target(reward, discount, 0.5, jnp.array([8.0, 8.0]))
    np.testing.assert_array_equal(target, [5.0, 1.0])


def test_target_carries_no_gradient() -> None:
    gradient = jax.grad(lambda value: jnp.sum(bellman_target(value, value, 0.5, value)))
    np.testing.assert_array_equal(gradient(jnp.ones(2)), 0.0)


def test_polyak_by_hand() -> None:
    target = {"a": jnp.array([0.0, 4.0]), "b": jnp.array(-1.0)}
    online = {"a": jnp.array([8.0, 4.0]), "b": jnp.array(1.0)}
    averaged = polyak(target, online, 0.25)  # 3/4 of the target, 1/4 of the online value
    np.testing.assert_array_equal(averaged["a"], [2.0, 4.0])
    np.testing.assert_array_equal(averaged["b"], -0.5)


class Case:
    """An agent with linear networks, updated at the turn that updates all of it; where it mixes
    the rows of a batch or scales them, it is told not to."""

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self.agent = make_agent(kind(hidden_sizes=(), **PLAIN.get(kind, {})), SPEC, batch_size=4)
        self._update = quick_jit(update_agent, static_argnums=(0, 4))
        self.state = quick_jit(self.agent.init)(jax.random.key(0))
        # The first step of Adam has the same size for every gradient; a second one has not.
        self.state, _, _ = self.update(make_sample())
        # Both critics are s0 + a, so their values are exact in binary.
        weight = jnp.tile(jnp.array([[1.0], [0.0], [1.0]]), (2, 1, 1))
        critics: Any = (Layer(weight, jnp.zeros((2, 1))),)
        if isinstance(self.state.critics, NormedMlp):
            critics = NormedMlp(critics, norms=())
        self.state = self.state._replace(critics=critics, target_critics=critics)

    def update(self, sample: Sample) -> tuple[Any, Array, Any]:
        return self._update(self.agent, self.state, sample, KEY, self.agent.period - 1)

    def networks(self, sample: Sample) -> tuple[Any, Any]:
        """Policy and critics after the update."""
        state, _, _ = self.update(sample)
        return state.actor, state.critics


# FlashSAC has no linear networks; its update is XQC's.
LINEAR = [kind for kind in AGENTS.values() if kind is not FlashSacConfig]


@pytest.fixture(scope="module", params=LINEAR, ids=lambda kind: kind.name)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


def make_sample(
    weights: Array = ONES, policy_weights: Array = ONES, **fields: Array | float
) -> Sample:
    obs = jnp.array([[0.5, 1.0], [-1.0, 2.0], [2.0, 0.25], [-0.5, -3.0]])
    batch = Transition(
        obs=obs,
        action=jnp.array([[0.5], [-0.5], [0.25], [-0.25]]),
        reward=jnp.array([3.0, -4.0, 2.0, 5.0]),
        discount=jnp.zeros(4),
        next_obs=obs[::-1],
    )
    return Sample(batch._replace(**fields), jnp.arange(4), weights, policy_weights)


def exact_sample(**weights: Array) -> Sample:
    """The critics are right about all of it: q = s0 + a = reward."""
    return make_sample(reward=jnp.array([1.0, -1.5, 2.25, -0.75]), **weights)


def test_td_errors_by_hand(case: Case) -> None:
    _, td_errors, metrics = case.update(make_sample(weights=UNEVEN))
    # q = (1, -1.5, 2.25, -0.75) less the reward, as nothing is bootstrapped
    expected = np.array([-2.0, 2.5, 0.25, -5.75])
    np.testing.assert_allclose(td_errors, [expected, expected])
    # per critic (3 * 4 + 0.5 * 0.0625 + 0.5 * 33.0625) / 4
    np.testing.assert_allclose(metrics["critic_loss"], 2 * 28.5625 / 4)
    np.testing.assert_allclose(metrics["td_error"], 2.625)
    np.testing.assert_allclose(metrics["q_mean"], 0.25)


def test_unit_weights_equal_the_unweighted_agent(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unweighted(losses: Array, weights: Array) -> Array:
        return jnp.sum(jnp.mean(losses, axis=-1))

    monkeypatch.setattr(
        sys.modules[type(case.state).__module__], "weighted_critic_loss", unweighted
    )
    ignored = jnp.full(4, jnp.nan)
    plain = Case(case.kind)
    assert same_bits(plain.state, case.state)
    new_state, td_errors, _ = plain.update(make_sample(ignored, jnp.float32(1)))
    assert same_bits((new_state, td_errors), case.update(make_sample())[:2])


def test_weights_change_the_critics(case: Case) -> None:
    _, even = case.networks(make_sample())
    _, uneven = case.networks(make_sample(weights=UNEVEN))
    assert not same_bits(even, uneven)


def test_weights_reach_nothing_but_the_critics(case: Case) -> None:
    # The critics' errors are zero, so the weights cannot move them; nor may anything else.
    even, td_errors, _ = case.update(exact_sample())
    np.testing.assert_array_equal(td_errors, 0.0)
    assert not same_bits(case.agent.policy(even), case.agent.policy(case.state))
    assert same_bits(even, case.update(exact_sample(weights=UNEVEN))[0])


def test_policy_weights_reach_the_policy_only(case: Case) -> None:
    even_policy, even_critics = case.networks(make_sample())
    policy, critics = case.networks(make_sample(policy_weights=UNEVEN))
    assert same_bits(critics, even_critics)
    assert not same_bits(policy, even_policy)


def test_a_zero_weight_removes_a_transition_from_the_critics(case: Case) -> None:
    other = make_sample().batch.reward.at[1].set(1000.0)  # UNEVEN has its zero there
    state, _, _ = case.update(make_sample(weights=UNEVEN))
    changed, td_errors, _ = case.update(make_sample(weights=UNEVEN, reward=other))
    assert same_bits(state, changed)
    np.testing.assert_allclose(td_errors[:, 1], -1001.5)
    counted, _, _ = case.update(make_sample(reward=other))
    assert not same_bits(counted, case.update(make_sample())[0])


def test_a_zero_weight_for_both_removes_a_transition_altogether(case: Case) -> None:
    weights = {"weights": UNEVEN, "policy_weights": UNEVEN}
    other = make_sample().batch.obs.at[1].set(7.0)
    assert same_bits(
        case.networks(make_sample(**weights)), case.networks(make_sample(**weights, obs=other))
    )


def test_doubled_weights_double_the_loss(case: Case) -> None:
    _, _, once = case.update(make_sample())
    _, _, twice = case.update(make_sample(weights=2 * ONES))
    np.testing.assert_allclose(twice["critic_loss"], 2 * once["critic_loss"], rtol=1e-6)


def test_a_snapshot_keeps_policy_and_critics(case: Case) -> None:
    (actor,), (critics,) = (
        getattr(network, "layers", network) for network in (case.state.actor, case.state.critics)
    )
    assert same_bits(
        case.agent.networks(case.state),
        {
            "policy.0.weight": actor.weight,
            "policy.0.bias": actor.bias,
            "critics.0.weight": critics.weight,
            "critics.0.bias": critics.bias,
        },
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"num_climbed": 2}, 22 + 15),
        ({"num_climbed": 1, "policy_delay": 2}, 22 + 5),
        ({"num_climbed": 2, "num_passed": 2, "num_acted": 2}, 22 + 12 + 15 + 2),
    ],
)
def test_products_by_hand(counts: dict[str, int], expected: float) -> None:
    """Networks 1-1-1 and 2-1-1, D = A = 1; a product has a gradient by its weights and, behind
    the first layer, one by its input.

    Actor: forward 2, trained 2 + 2 + 1 = 5. A critic: forward 3, trained 3 + 3 + 1 = 7, and back
    to its action 1 + 1. Critics: target actor 2, two targets 6, two trained 14: 22. Policy: 5, and
    5 for each critic that it climbs.

    A second pair passes through the first layers alone: a critic's forward 2, trained 2 + 2, so 12
    in both and their targets; the actor's trained 1 + 1.
    """
    networks = ActorCritic(actor=mlp((1, 1, 1)), critic=mlp((2, 1, 1)))
    assert networks.products(EnvSpec(1, 1), **counts) == expected
