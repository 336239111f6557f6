"""The ratio network: how much likelier a state-action pair is under the fast memory than
under the slow one, learned from samples alone (paper, Eq. 8 and 9). Usable on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from lfiw.networks import Parameters, mlp
from lfiw.ratio.divergences import DIVERGENCES
from lfiw.settings import setting
from lfiw.types import Metrics

LAST_LAYER_LIMIT = 3e-3  # authors' code: weights start uniform
FINITE_LOGIT = 1e8  # keeps an overflowed logit from turning into inf - inf


@dataclass(frozen=True)
class RatioConfig:
    """Settings of the ratio network and of its weights."""

    # paper, section 5, as the sizes
    temperature: float = setting(5.0, "T of Eq. 9; large values make weights equal", above=0)
    hidden_sizes: tuple[int, ...] = setting((256, 256), "layers of the ratio network", at_least=1)
    # authors' code
    learning_rate: float | None = setting(None, "of the ratio network; none: the agent's", above=0)
    divergence: Literal["jensen-shannon", "kl", "pearson", "hellinger"] = setting(
        "jensen-shannon", "what the ratio network is trained on"
    )
    # Below it, weights are mixed with uniform ones (`with_floor`). Deviation: the paper has no
    # floor (0), and runs diverge on Humanoid without one; 0.4 to 0.6 did equally well
    # (docs/method.md).
    min_effective_sample_size: float = setting(
        0.6, "floor of each batch's effective sample size; 0: none", at_least=0, at_most=1
    )
    # Deviation: the paper's text has `power`; `sigmoid`, which the authors' code used, was
    # higher at the end in six of eight pairs measured (docs/method.md).
    transform: Literal["sigmoid", "power"] = setting("sigmoid", "from logits to weights")


# The logarithm of a weight before normalisation, by the logit over the temperature.
LOG_TRANSFORMS: dict[str, Callable[[Array], Array]] = {
    "power": lambda scaled: scaled,
    "sigmoid": jax.nn.log_sigmoid,
}


class RatioState(NamedTuple):
    network: Parameters
    opt: optax.OptState


class Ratio(NamedTuple):
    """A ratio network as pure functions over its state."""

    init: Callable[[Array], RatioState]
    # (state, slow [B, D+A], fast [B, D+A]) -> (state, slow and fast logits before the step)
    update: Callable[[RatioState, Array, Array], tuple[RatioState, Array, Array]]
    logits: Callable[[RatioState, Array], Array]
    metrics: Callable[[Array, Array], Metrics]  # of slow and fast logits
    arrays: Callable[[RatioState], dict[str, Array]] = lambda state: {}  # what a snapshot keeps
    products: int = 0  # multiplications of one update for each pair of a slow and a fast row


def ratio_weights(
    logits: Array,
    temperature: float,
    transform: str,
    max_ratio: Array | None = None,
) -> Array:
    """Self-normalised weights of a batch, Eq. 9: finite, >= 0, mean one, without gradient.

    `power` is w^(1/T) with w = exp(logit); `sigmoid` is sigmoid(logit / T). Both are
    normalised in log space, where neither can overflow nor vanish altogether.

    Args:
        logits: Of the ratio network [B].
        temperature: Large values make weights equal.
        transform: `"sigmoid"` or `"power"`.
        max_ratio: Where the ratio is cut from above, such as its exact bound.
    """
    log_weights = log_ratios(logits, temperature, transform, max_ratio)
    unscaled = jnp.exp(log_weights - jnp.max(log_weights))
    return unscaled * (logits.shape[0] / jnp.sum(unscaled))  # exactly one where all are equal


def log_ratios(
    logits: Array, temperature: float, transform: str, max_ratio: Array | None = None
) -> Array:
    """The logarithms of weights before normalisation: finite, without gradient."""
    logits = jax.lax.stop_gradient(jnp.clip(logits, -FINITE_LOGIT, FINITE_LOGIT))
    if max_ratio is not None:
        logits = jnp.minimum(logits, jnp.log(max_ratio))
    return LOG_TRANSFORMS[transform](logits / temperature)


def with_floor(weights: Array, floor: float) -> tuple[Array, Array]:
    """Weights of mean one, mixed with uniform ones just enough that their effective sample size
    is at least `floor`, and how much of the given ones is left in them: the trust.

    It is 1 / (1 + spread) with the spread of the weights around their mean of one, and the spread
    of a mixture is trust^2 times theirs. A floor of 0 leaves the weights as they are, to the
    bit, and a floor of 1 makes them all one.
    """
    trust = trust_above(floor, jnp.mean(jnp.square(weights - 1)))
    return (1 - trust) + trust * weights, trust


def trust_above(floor: float, spread: Array) -> Array:
    """The largest share of weights of this spread that a mixture above the floor can have."""
    holds = floor * spread <= 1 - floor
    return jnp.where(holds, 1.0, jnp.sqrt((1 - floor) / (floor * spread)))


def effective_sample_size(weights: Array) -> Array:
    """As a share of the batch: 1 for equal weights, 1/B when one transition carries all."""
    return jnp.square(jnp.mean(weights)) / jnp.mean(jnp.square(weights))


def make_ratio(config: RatioConfig, input_size: int, default_learning_rate: float) -> Ratio:
    """The network that tells fast rows from slow ones.

    Args:
        config: Its settings.
        input_size: Numbers in a row, for instance of an observation and an action.
        default_learning_rate: Adam's, where the config has none.
    """
    divergence = DIVERGENCES[config.divergence]
    rate = default_learning_rate if config.learning_rate is None else config.learning_rate
    optimiser = optax.adam(rate)
    network = mlp((input_size, *config.hidden_sizes, 1), LAST_LAYER_LIMIT)

    def init(key: Array) -> RatioState:
        parameters = network.init(key)
        return RatioState(parameters, optimiser.init(parameters))

    def logits(state: RatioState, inputs: Array) -> Array:
        return network.apply(state.network, inputs)[:, 0]

    def bound(slow_logits: Array, fast_logits: Array) -> Array:
        """Eq. 8."""
        on_slow, on_fast = divergence.on_slow(slow_logits), divergence.on_fast(fast_logits)
        return jnp.mean(on_slow) + jnp.mean(on_fast)

    def loss(parameters: Parameters, slow: Array, fast: Array) -> tuple[Array, tuple[Array, Array]]:
        both = network.apply(parameters, jnp.concatenate([slow, fast]))[:, 0]
        slow_logits, fast_logits = both[: slow.shape[0]], both[slow.shape[0] :]
        return bound(slow_logits, fast_logits), (slow_logits, fast_logits)

    def update(state: RatioState, slow: Array, fast: Array) -> tuple[RatioState, Array, Array]:
        grads, (slow_logits, fast_logits) = jax.grad(loss, has_aux=True)(state.network, slow, fast)
        steps, opt = optimiser.update(grads, state.opt)
        parameters = optax.apply_updates(state.network, steps)
        return RatioState(parameters, opt), slow_logits, fast_logits

    def metrics(slow_logits: Array, fast_logits: Array) -> Metrics:
        balanced_accuracy = 0.5 * (jnp.mean(slow_logits < 0) + jnp.mean(fast_logits > 0))
        return {
            "classifier_loss": bound(slow_logits, fast_logits),
            "balanced_accuracy": balanced_accuracy,
        }

    return Ratio(
        init=init,
        update=update,
        logits=logits,
        metrics=metrics,
        arrays=lambda state: network.arrays(state.network, "ratio"),
        products=2 * network.trained_products,
    )
