import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from programs import MIDWAY, quick_jit
from scipy.stats import norm

from lfiw.agents.sac import LOG_STD_MAX, LOG_STD_MIN, SacConfig, SacState, make_sac, sample_action
from lfiw.networks import Layer, Mlp
from lfiw.types import EnvSpec, Sample, Transition

SPEC = EnvSpec(obs_size=1, action_size=1)
BATCH = 2
RATE = 1e-2
NO_ENTROPY = -200.0  # log alpha


def gaussian(mean: float, log_std: float, slope: float = 0.0) -> Mlp:
    """A policy without hidden layers: its mean is `mean + slope * s`."""
    return (Layer(jnp.array([[slope, 0.0]]), jnp.array([mean, log_std])),)


def linear_critics(first: tuple[float, ...], second: tuple[float, ...]) -> Mlp:
    """Critics q = of_s * s + of_a * a + constant, each given by its three numbers."""
    both = jnp.array([first, second])
    return (Layer(both[:, :2, None], both[:, 2:]),)


def constant_critics(first: float, second: float) -> Mlp:
    return linear_critics((0.0, 0.0, first), (0.0, 0.0, second))


def log_density(action: np.ndarray, mean: Any, std: Any) -> np.ndarray:
    """Change of variables: a = tanh(x), so p(a) = p(x) / (1 - a^2)."""
    return norm.logpdf(np.arctanh(action), mean, std) - np.log1p(-(action**2))


class Sac:
    """Linear networks, gamma 1/2, a batch of two."""

    def __init__(self, **settings: Any) -> None:
        config = SacConfig(hidden_sizes=(), learning_rate=RATE, gamma=0.5, **settings)
        self.agent = make_sac(config, SPEC, BATCH)
        self.start = quick_jit(self.agent.init)(jax.random.key(0))._replace(
            actor=gaussian(0.0, 0.0),
            critics=constant_critics(0.0, 0.0),
            target_critics=constant_critics(0.0, 0.0),
        )
        self._update = quick_jit(self.agent.update, static_argnums=4)

    def update(
        self,
        weights: Any = (1.0, 1.0),
        next_noise: Any = (0.0, 0.0),
        noise: Any = (0.0, 0.0),
        fields: dict[str, Any] | None = None,
        log_alpha: float = 0.0,
        **networks: Mlp,
    ) -> tuple[SacState, Array, Any]:
        """One update with these networks on transitions with these fields, else zeros."""
        zeros, ones = jnp.zeros(BATCH), jnp.ones(BATCH)
        batch = Transition(zeros[:, None], zeros[:, None], zeros, ones, zeros[:, None])
        batch = batch._replace(**{name: jnp.array(v) for name, v in (fields or {}).items()})
        sample = Sample(batch, jnp.arange(BATCH), jnp.array(weights), ones)
        state = self.start._replace(log_alpha=jnp.float32(log_alpha), **networks)
        all_noise = jnp.array([next_noise, noise])[..., None]
        new_state, td_errors, trace = self._update(state, sample, all_noise, MIDWAY, 0)
        return new_state, td_errors, self.agent.metrics(trace)


@pytest.fixture(scope="module")
def sac() -> Sac:
    return Sac()


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.0), (-0.3, 0.2)])
def test_density_of_the_policy(mean: float, log_std: float) -> None:
    actions = np.linspace(-0.99999, 0.99999, 200_001)
    noise = (np.arctanh(actions) - mean) / math.exp(log_std)
    outputs = jnp.broadcast_to(jnp.array([mean, log_std]), (len(actions), 2))
    sampled, log_prob = sample_action(outputs, jnp.asarray(noise)[:, None])
    np.testing.assert_allclose(sampled[:, 0], actions, atol=1e-5)
    expected = log_density(actions, mean, math.exp(log_std))
    np.testing.assert_allclose(log_prob, expected, rtol=1e-3, atol=2e-3)
    np.testing.assert_allclose(np.trapezoid(np.exp(log_prob), actions), 1.0, atol=5e-3)


def test_log_density_sums_over_the_action() -> None:
    noise = np.array([[0.3, -0.8]], np.float32)
    action, log_prob = sample_action(jnp.array([[0.5, -1.0, 0.1, -0.4]]), jnp.asarray(noise))
    means, stds = np.array([0.5, -1.0]), np.exp([0.1, -0.4])
    expected = np.tanh(means + stds * noise[0])
    np.testing.assert_allclose(action[0], expected, rtol=1e-5)
    np.testing.assert_allclose(log_prob, [sum(log_density(expected, means, stds))], rtol=1e-4)


@pytest.mark.parametrize("mean", [-50.0, 50.0])
def test_log_density_stays_finite_where_tanh_is_flat(mean: float) -> None:
    _, log_prob = sample_action(jnp.array([[mean, 0.0]]), jnp.zeros((1, 1)))
    # 1 - tanh(x)^2 = 4 e^(-2|x|) for large |x|
    expected = -0.5 * math.log(2 * math.pi) + 100 - math.log(4)
    np.testing.assert_allclose(log_prob, [expected], rtol=1e-5)


@pytest.mark.parametrize(("log_std", "clipped"), [(9.0, LOG_STD_MAX), (-99.0, LOG_STD_MIN)])
def test_log_std_is_clipped(log_std: float, clipped: float) -> None:
    assert (LOG_STD_MIN, LOG_STD_MAX) == (-20.0, 2.0)
    noise = jnp.full((1, 1), 0.1)
    found, expected = (sample_action(jnp.array([[0.0, x]]), noise) for x in (log_std, clipped))
    jax.tree.map(np.testing.assert_allclose, found, expected)


def test_noise_is_standard_normal_and_separate_for_both_actions(sac: Sac) -> None:
    noise = make_sac(SacConfig(), SPEC, 5000).draw(jax.random.key(0))
    assert noise.shape == (2, 5000, 1)
    np.testing.assert_allclose(np.mean(noise, axis=(1, 2)), 0.0, atol=0.05)
    np.testing.assert_allclose(np.std(noise, axis=(1, 2)), 1.0, atol=0.05)
    assert abs(np.corrcoef(noise[..., 0])[0, 1]) < 0.05


def test_critic_loss_by_hand(sac: Sac) -> None:
    fields = {
        "obs": [[1.0], [2.0]],
        "action": [[0.5], [-0.5]],
        "reward": [1.0, 2.0],
        "discount": [1.0, 0.0],
    }
    _, td_errors, metrics = sac.update(
        weights=(2.0, 0.5),
        fields=fields,
        critics=linear_critics((1.0, 2.0, 0.0), (0.0, 0.0, 1.0)),
        target_critics=constant_critics(5.0, 3.0),
        log_alpha=NO_ENTROPY,
    )
    # The smaller target critic says 3: targets 1 + 0.5 * 3 and, terminated, 2.
    # q1 = s + 2 a = (2, 1), q2 = (1, 1)
    np.testing.assert_allclose(td_errors, [[-0.5, -1.0], [-1.5, -1.0]])
    # (2 * 0.25 + 0.5 * 1) / 2 + (2 * 2.25 + 0.5 * 1) / 2
    np.testing.assert_allclose(metrics["critic_loss"], 0.5 + 2.5)
    np.testing.assert_allclose(metrics["q_mean"], 1.25)


def test_target_takes_the_current_policy_at_the_successor(sac: Sac) -> None:
    _, td_errors, _ = sac.update(
        fields={"obs": [[9.0], [9.0]], "next_obs": [[0.5], [-1.0]]},
        next_noise=(2.0, 0.0),
        noise=(9.0, 9.0),
        actor=gaussian(0.25, math.log(0.5), slope=1.0),
        target_critics=linear_critics((2.0, 1.0, 0.0), (0.0, 0.0, 50.0)),
        log_alpha=NO_ENTROPY,
    )
    # a' = tanh(s' + 1/4 + noise / 2), and the target is 0.5 (2 s' + a')
    target = [0.5 * (1.0 + math.tanh(1.75)), 0.5 * (-2.0 + math.tanh(-0.75))]
    np.testing.assert_allclose(td_errors, -np.array([target, target]), rtol=1e-5)


def test_entropy_in_target_and_policy_loss(sac: Sac) -> None:
    mean, std, alpha = 0.3, 0.6, 2.0
    next_noise, noise = np.array([0.5, -1.2]), np.array([-0.1, 0.9])
    _, td_errors, metrics = sac.update(
        next_noise=next_noise,
        noise=noise,
        actor=gaussian(mean, math.log(std)),
        log_alpha=math.log(alpha),
    )
    next_logs = log_density(np.tanh(mean + std * next_noise), mean, std)
    logs = log_density(np.tanh(mean + std * noise), mean, std)
    # All Q are 0, so the target is gamma * -alpha log pi(a'|s').
    np.testing.assert_allclose(td_errors, [0.5 * alpha * next_logs] * 2, rtol=1e-4)
    np.testing.assert_allclose(metrics["entropy"], -np.mean(logs), rtol=1e-3)
    # By then the critics have moved by one step.
    np.testing.assert_allclose(metrics["actor_loss"], alpha * np.mean(logs), atol=1.5 * RATE)


@pytest.mark.parametrize(
    ("second", "direction"), [((0.0, 3.0, 100.0), 1.0), ((0.0, -3.0, -100.0), -1.0)]
)
def test_policy_climbs_the_smaller_critic(
    sac: Sac, second: tuple[float, ...], direction: float
) -> None:
    critics = linear_critics((0.0, 1.0, 0.0), second)
    state, _, metrics = sac.update(critics=critics, log_alpha=NO_ENTROPY)
    # The first step of Adam is the learning rate, whatever the size of the gradient.
    np.testing.assert_allclose(state.actor[0].bias[0], direction * RATE, rtol=1e-3)
    np.testing.assert_allclose(metrics["actor_loss"], -min(0.0, second[2]), atol=2 * RATE)


def test_policy_seeks_entropy(sac: Sac) -> None:
    narrow, _, _ = sac.update(noise=(1.0, -1.0), actor=gaussian(0.0, -2.0))
    np.testing.assert_allclose(narrow.actor[0].bias[1] + 2.0, RATE, rtol=1e-3)
    # tanh squeezes a very wide policy against +-1, so it narrows
    broad, _, _ = sac.update(noise=(1.0, -1.0), actor=gaussian(0.0, 1.5))
    np.testing.assert_allclose(broad.actor[0].bias[1] - 1.5, -RATE, rtol=1e-3)


@pytest.mark.parametrize(("log_std", "direction"), [(-5.0, 1.0), (0.0, -1.0)])
def test_alpha_steers_entropy_to_minus_the_action_size(
    sac: Sac, log_std: float, direction: float
) -> None:
    # log pi = -0.92 - log_std at the mean: more than 1 is too narrow, so alpha rises.
    state, _, metrics = sac.update(actor=gaussian(0.0, log_std), log_alpha=0.3)
    np.testing.assert_allclose(state.log_alpha - 0.3, direction * RATE, rtol=1e-3)
    np.testing.assert_allclose(metrics["alpha"], np.exp(state.log_alpha), rtol=1e-6)
    # Adam's first moment is a tenth of the gradient -(log pi - 1).
    gradient = -(-0.5 * math.log(2 * math.pi) - log_std - 1)
    np.testing.assert_allclose(state.alpha_opt[0].mu, 0.1 * gradient, rtol=1e-4)


def test_target_entropy_can_be_given() -> None:
    state, _, _ = Sac(target_entropy=0.8).update()
    # log pi = -0.92 at the mean, and -0.92 + 0.8 < 0
    gradient = 0.5 * math.log(2 * math.pi) - 0.8
    np.testing.assert_allclose(state.alpha_opt[0].mu, 0.1 * gradient, rtol=1e-4)


def test_target_critics_follow_the_new_critics(sac: Sac) -> None:
    after, _, _ = sac.update(critics=constant_critics(4.0, 8.0), log_alpha=NO_ENTROPY)
    # Targets are 0: both critics are too high and fall by one step of Adam.
    critics = np.array([4.0 - RATE, 8.0 - RATE])
    np.testing.assert_allclose(after.critics[0].bias[:, 0], critics, rtol=1e-5)
    np.testing.assert_allclose(after.target_critics[0].bias[:, 0], 5e-3 * critics, rtol=1e-5)


def test_initial_state() -> None:
    agent = make_sac(SacConfig(hidden_sizes=(), initial_alpha=0.25), SPEC, BATCH)
    state = quick_jit(agent.init)(jax.random.key(0))
    np.testing.assert_allclose(np.exp(state.log_alpha), 0.25, rtol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, state.critics, state.target_critics)
