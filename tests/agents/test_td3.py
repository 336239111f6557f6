import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from programs import MIDWAY, quick_jit, same_bits

from lfiw.agents.td3 import Td3Config, Td3State, make_td3
from lfiw.networks import Layer, Mlp
from lfiw.types import EnvSpec, Sample, Transition

SPEC = EnvSpec(obs_size=1, action_size=1)
BATCH = 2
RATE = 1e-2
TAU = 0.25


def linear_actor(slope: float, constant: float) -> Mlp:
    """a = tanh(slope * s + constant)"""
    return (Layer(jnp.array([[slope]]), jnp.array([constant])),)


def linear_critics(first: tuple[float, ...], second: tuple[float, ...]) -> Mlp:
    """Critics q = of_s * s + of_a * a + constant, each given by its three numbers."""
    both = jnp.array([first, second])
    return (Layer(both[:, :2, None], both[:, 2:]),)


def constant_critics(first: float, second: float) -> Mlp:
    return linear_critics((0.0, 0.0, first), (0.0, 0.0, second))


class Td3:
    """Linear networks, gamma 1/2, a batch of two."""

    def __init__(self, **settings: Any) -> None:
        config = Td3Config(hidden_sizes=(), learning_rate=RATE, gamma=0.5, tau=TAU, **settings)
        self.agent = make_td3(config, SPEC, BATCH)
        self.start = quick_jit(self.agent.init)(jax.random.key(0))._replace(
            actor=linear_actor(0.0, 0.0),
            target_actor=linear_actor(0.0, 0.0),
            critics=constant_critics(0.0, 0.0),
            target_critics=constant_critics(0.0, 0.0),
        )
        self._update = quick_jit(self.agent.update, static_argnums=4)

    def update(
        self,
        turn: int = 0,
        weights: Any = (1.0, 1.0),
        noise: Any = (0.0, 0.0),
        fields: dict[str, Any] | None = None,
        **networks: Mlp,
    ) -> tuple[Td3State, Array, Any]:
        """One update with these networks on transitions with these fields, else zeros."""
        zeros, ones = jnp.zeros(BATCH), jnp.ones(BATCH)
        batch = Transition(zeros[:, None], zeros[:, None], zeros, ones, zeros[:, None])
        batch = batch._replace(**{name: jnp.array(v) for name, v in (fields or {}).items()})
        sample = Sample(batch, jnp.arange(BATCH), jnp.array(weights), ones)
        state = self.start._replace(**networks)
        new_state, td_errors, trace = self._update(
            state, sample, jnp.array(noise)[:, None], MIDWAY, turn
        )
        return new_state, td_errors, self.agent.metrics(trace)


@pytest.fixture(scope="module")
def td3() -> Td3:
    return Td3()


def test_critic_loss_by_hand(td3: Td3) -> None:
    fields = {
        "obs": [[1.0], [2.0]],
        "action": [[0.5], [-0.5]],
        "reward": [1.0, 2.0],
        "discount": [1.0, 0.0],
    }
    _, td_errors, metrics = td3.update(
        weights=(2.0, 0.5),
        fields=fields,
        critics=linear_critics((1.0, 2.0, 0.0), (0.0, 0.0, 1.0)),
        target_critics=constant_critics(5.0, 3.0),
    )
    # The smaller target critic says 3: targets 1 + 0.5 * 3 and, terminated, 2.
    # q1 = s + 2 a = (2, 1), q2 = (1, 1)
    np.testing.assert_allclose(td_errors, [[-0.5, -1.0], [-1.5, -1.0]])
    # (2 * 0.25 + 0.5 * 1) / 2 + (2 * 2.25 + 0.5 * 1) / 2
    np.testing.assert_allclose(metrics["critic_loss"], 0.5 + 2.5)


def test_target_takes_the_target_policy_at_the_successor(td3: Td3) -> None:
    _, td_errors, _ = td3.update(
        fields={"obs": [[9.0], [9.0]], "next_obs": [[0.5], [-1.0]]},
        actor=linear_actor(-3.0, 0.0),
        target_actor=linear_actor(1.0, 0.25),
        target_critics=linear_critics((2.0, 1.0, 0.0), (0.0, 0.0, 50.0)),
    )
    # a' = tanh(s' + 1/4) and the target is 0.5 (2 s' + a')
    action = math.tanh(0.75)
    target = [0.5 * (1.0 + action), 0.5 * (-2.0 - action)]
    np.testing.assert_allclose(td_errors, -np.array([target, target]), rtol=1e-5)


@pytest.mark.parametrize(
    ("constant", "noise", "expected"),
    [
        (0.0, (1.0, -2.0), [0.2, -0.4]),  # target noise 0.2
        (0.0, (99.0, -99.0), [0.5, -0.5]),  # clipped at 0.5
        (40.0, (99.0, -99.0), [1.0, 0.5]),  # tanh(40) = 1, and actions stay within 1
        (-40.0, (99.0, -99.0), [-0.5, -1.0]),
    ],
)
def test_target_noise_and_target_action_are_clipped(
    td3: Td3, constant: float, noise: tuple[float, float], expected: list[float]
) -> None:
    critic = (0.0, 2.0, 0.0)  # with gamma 1/2 the target is the action itself
    _, td_errors, _ = td3.update(
        noise=noise,
        target_actor=linear_actor(0.0, constant),
        target_critics=linear_critics(critic, critic),
    )
    np.testing.assert_allclose(-td_errors[0], expected, rtol=1e-6)


def test_noise_is_standard_normal() -> None:
    noise = make_td3(Td3Config(), SPEC, 5000).draw(jax.random.key(0))
    assert noise.shape == (5000, 1)
    np.testing.assert_allclose(np.mean(noise), 0.0, atol=0.05)
    np.testing.assert_allclose(np.std(noise), 1.0, atol=0.05)


@pytest.mark.parametrize("slope", [1.0, -1.0])
def test_policy_climbs_the_first_critic(td3: Td3, slope: float) -> None:
    critics = linear_critics((0.0, slope, 3.0), (0.0, -9 * slope, -5.0))
    state, _, metrics = td3.update(turn=1, critics=critics)
    # The first step of Adam is the learning rate, whatever the size of the gradient.
    np.testing.assert_allclose(state.actor[0].bias, [slope * RATE], rtol=1e-3)
    np.testing.assert_allclose(metrics["actor_loss"], -3.0, atol=2 * RATE)


@pytest.mark.parametrize("delay", [1, 3])
def test_policy_and_targets_wait_for_the_last_turn(delay: int) -> None:
    td3 = Td3(policy_delay=delay)
    assert td3.agent.period == delay
    networks = {
        "critics": linear_critics((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)),
        "actor": linear_actor(0.5, 0.25),
    }
    before = td3.start._replace(**networks)
    for turn in range(delay):
        after, _, metrics = td3.update(turn, fields={"obs": [[1.0], [2.0]]}, **networks)
        assert not same_bits(after.critics, before.critics)
        last = turn == delay - 1
        for name in ("actor", "actor_opt", "target_actor", "target_critics"):
            assert same_bits(getattr(after, name), getattr(before, name)) != last, (name, turn)
        assert ("actor_loss" in metrics) == last


def test_default_delay_is_two(td3: Td3) -> None:
    assert td3.agent.period == 2
    networks = {"actor": linear_actor(0.0, 1.0), "critics": constant_critics(4.0, 8.0)}
    early, _, _ = td3.update(turn=0, **networks)
    late, _, _ = td3.update(turn=1, **networks)
    assert same_bits(early.target_critics, td3.start.target_critics)
    assert not same_bits(late.target_critics, td3.start.target_critics)


def test_targets_follow_by_hand(td3: Td3) -> None:
    state, _, _ = td3.update(
        turn=1,
        actor=linear_actor(0.0, 1.0),
        critics=linear_critics((0.0, 1.0, 4.0), (0.0, 0.0, 8.0)),
    )
    # Targets are 0: both critics are too high and fall by one step of Adam; the policy rises.
    critics = np.array([4.0 - RATE, 8.0 - RATE])
    np.testing.assert_allclose(state.critics[0].bias[:, 0], critics, rtol=1e-5)
    np.testing.assert_allclose(state.actor[0].bias, [1.0 + RATE], rtol=1e-5)
    np.testing.assert_allclose(state.target_critics[0].bias[:, 0], TAU * critics, rtol=1e-5)
    np.testing.assert_allclose(state.target_actor[0].bias, [TAU * (1.0 + RATE)], rtol=1e-5)


def test_initial_state() -> None:
    agent = make_td3(Td3Config(hidden_sizes=(), exploration_noise=0.3), SPEC, BATCH)
    state = quick_jit(agent.init)(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, state.critics, state.target_critics)
    jax.tree.map(np.testing.assert_array_equal, state.actor, state.target_actor)
    np.testing.assert_allclose(agent.policy(state)["exploration_noise"], 0.3, rtol=1e-6)
