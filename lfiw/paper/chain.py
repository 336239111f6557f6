"""Chain MDP of the paper (Figure 1): how the weighting of TD updates sets the speed of learning.

Reading of the text: a wall at each end keeps the agent in place, and *acting from* the right-most
state pays 1. At the defaults the mean error falls below 1 after 121 (stationary), 167 (TD error)
and 194 (uniform) epochs; paying on arrival gives 132, 173, 194, paying only the right action there
94, 141, 170. The paper prints 120 and 182 and names neither its discount nor its learning rate.

Epochs are counted on the error averaged over all initialisations (the paper's "expected error");
averaging each initialisation's own first epoch below 1 instead gives 121.1, 166.6 and 194.1.

What the paper does not show: the stationary weighting starts fastest and is overtaken later, as it
neglects rare pairs. So it loses its lead at error 1 from a discount of 0.94 on, where that error
lies further below the start, while it stays ahead of uniform weights and of TD errors to a tenth
of the start at every discount. A
floor under the effective sample size of its weights (`docs/method.md`) costs some of the first
epochs and ends the late ones' trouble: at every discount and threshold it is ahead of uniform
weights and of TD errors, and from a discount of 0.9 on it is first of all to error 1 and to a
hundredth of the start.

Shapes: I initialisations of Q; K = 2 * num_states pairs, right and left of each state in turn.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from lfiw.results.catalogue import looks
from lfiw.results.plot import new_panels, save_figure
from lfiw.results.table import Table, Text

FloatArray = NDArray[np.floating[Any]]
ErrorCurves = dict[str, FloatArray]  # weighting -> mean error at the start and after each epoch
Epochs = dict[str, int | None]  # weighting -> epochs to a threshold, None where never reached

PAPER_EPOCHS_BELOW_1: dict[str, dict[str, int]] = {"0.8": {"td_error": 182, "stationary": 120}}


class Weighting(NamedTuple):
    """What weights the updates, and how its line looks."""

    label: str
    strategy: str  # the one that aims at it, whose colour it has
    # (TD errors [I, K], stationary distribution [K]) -> unnormalised weights [I, K]
    priority: Callable[[FloatArray, FloatArray], FloatArray]
    floor: float = 0.0  # under the effective sample size of the weights


def by_visits(td_error: FloatArray, stationary: FloatArray) -> FloatArray:
    return np.broadcast_to(stationary, td_error.shape)


FLOOR = 0.6
WEIGHTINGS = {
    "uniform": Weighting("uniform", "uniform", lambda td_error, _: np.ones_like(td_error)),
    "td_error": Weighting("TD error", "per", lambda td_error, _: np.abs(td_error)),
    "stationary": Weighting(r"stationary $d^\pi$", "lfiw", by_visits),
    "stationary_floor": Weighting(
        rf"stationary $d^\pi$, floor {FLOOR}", "lfiw-floor", by_visits, FLOOR
    ),
}


@dataclass(frozen=True)
class ChainConfig:
    num_states: int = 5  # paper, section 3.2, as are the probabilities of going right
    probabilities: tuple[float, ...] = (0.8, 0.2)
    discount: float = 0.9  # not in the paper, nor is the learning rate: together near its 120
    learning_rate: float = 0.1
    max_epochs: int = 6000
    num_initialisations: int = 200
    relative_thresholds: tuple[float, ...] = (0.1, 0.01)  # at p = 0.2 the error starts below 1
    sweep_discounts: tuple[float, ...] = (0.8, 0.85, 0.9, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98)
    seed: int = 0

    def __post_init__(self) -> None:
        discounts = (self.discount, *self.sweep_discounts)
        for rate in (*self.probabilities, *discounts, self.learning_rate):
            if not 0 < rate < 1:
                raise ValueError(f"A probability, discount or rate is {rate}; choose it in (0, 1).")


class Chain(NamedTuple):
    transition: FloatArray  # [K, K], rows sum to 1
    reward: FloatArray  # [K]
    discount: float
    true_q: FloatArray  # [K]
    stationary: FloatArray  # [K], undiscounted, sums to 1


@dataclass(frozen=True)
class ChainResult:
    config: ChainConfig
    curves: dict[float, ErrorCurves]  # by probability of going right
    sweep: dict[float, ErrorCurves]  # by discount, at the first probability


def transition_matrix(num_states: int, probability_right: float) -> FloatArray:
    matrix = np.zeros((2 * num_states, 2 * num_states))
    for state in range(num_states):
        right, left = min(state + 1, num_states - 1), max(state - 1, 0)
        for action, next_state in enumerate((right, left)):
            next_pairs = slice(2 * next_state, 2 * next_state + 2)
            matrix[2 * state + action, next_pairs] = probability_right, 1 - probability_right
    return matrix


def true_q_values(transition: FloatArray, reward: FloatArray, discount: float) -> FloatArray:
    return np.linalg.solve(np.eye(len(reward)) - discount * transition, reward)


def stationary_distribution(transition: FloatArray) -> FloatArray:
    # The added ones turn "d P = d" and "sum d = 1" into one regular linear system.
    return np.linalg.solve(np.eye(len(transition)) - transition.T + 1, np.ones(len(transition)))


def make_chain(num_states: int, probability_right: float, discount: float) -> Chain:
    transition = transition_matrix(num_states, probability_right)
    reward = np.zeros(2 * num_states)
    reward[-2:] = 1.0
    true_q = true_q_values(transition, reward, discount)
    return Chain(transition, reward, discount, true_q, stationary_distribution(transition))


def mean_one_weights(weighting: str, td_error: FloatArray, stationary: FloatArray) -> FloatArray:
    """Weights [I, K] with mean 1 for each Q, so that every weighting spends the same updates."""
    chosen = WEIGHTINGS[weighting]
    priority = chosen.priority(td_error, stationary)
    mean = priority.mean(axis=-1, keepdims=True)
    # A Q without any TD error has nothing to learn: uniform weights stand in for 0 / 0.
    weights = np.ones_like(td_error)
    np.divide(priority, mean, out=weights, where=mean > 0)
    return with_floor(weights, chosen.floor)


def with_floor(weights: FloatArray, floor: float) -> FloatArray:
    """As `lfiw.ratio.with_floor`, for rows of weights of mean one."""
    spread = np.mean((weights - 1) ** 2, axis=-1, keepdims=True)
    binds = floor * spread > 1 - floor
    trust = np.ones_like(spread)
    trust[binds] = np.sqrt((1 - floor) / (floor * spread[binds]))
    return (1 - trust) + trust * weights


def run_epoch(q: FloatArray, chain: Chain, weighting: str, learning_rate: float) -> FloatArray:
    """Q + (1 - (1 - eta)^w) (B Q - Q) for all pairs at once (paper, 'Setup on Chain MDP')."""
    td_error = chain.reward + chain.discount * q @ chain.transition.T - q
    weights = mean_one_weights(weighting, td_error, chain.stationary)
    return q + (1 - (1 - learning_rate) ** weights) * td_error


def squared_errors(q: FloatArray, chain: Chain) -> FloatArray:
    """E_{d_pi}[(Q - Q_pi)^2] of each initialisation [I]."""
    return (q - chain.true_q) ** 2 @ chain.stationary


def error_curves(q: FloatArray, chain: Chain, weighting: str, config: ChainConfig) -> FloatArray:
    """Errors at the start and after each epoch [epochs + 1, I], until all thresholds are passed."""
    errors = [squared_errors(q, chain)]
    last_threshold = min(1.0, errors[0].mean()) * min(config.relative_thresholds)
    while len(errors) <= config.max_epochs and errors[-1].mean() >= last_threshold:
        q = run_epoch(q, chain, weighting, config.learning_rate)
        errors.append(squared_errors(q, chain))
    return np.array(errors)


def mean_curves(config: ChainConfig, probability: float, discount: float) -> ErrorCurves:
    # One seed, so one draw, for every weighting, policy and discount: only they differ.
    shape = (config.num_initialisations, 2 * config.num_states)
    initial_q = np.random.default_rng(config.seed).random(shape)
    chain = make_chain(config.num_states, probability, discount)
    return {w: error_curves(initial_q, chain, w, config).mean(axis=1) for w in WEIGHTINGS}


def run_chain(config: ChainConfig) -> ChainResult:
    return ChainResult(
        config,
        curves={p: mean_curves(config, p, config.discount) for p in config.probabilities},
        sweep={d: mean_curves(config, config.probabilities[0], d) for d in config.sweep_discounts},
    )


def epochs_below(curves: ErrorCurves, threshold: float) -> Epochs:
    below = {weighting: np.flatnonzero(curve < threshold) for weighting, curve in curves.items()}
    return {weighting: int(at[0]) if at.size else None for weighting, at in below.items()}


def summarise(curves_by_key: dict[float, ErrorCurves], config: ChainConfig) -> dict[str, Any]:
    starts = {key: float(curves["uniform"][0]) for key, curves in curves_by_key.items()}
    return {
        "mean_error_at_start": {str(key): start for key, start in starts.items()},
        "epochs_below_1": {str(k): epochs_below(c, 1.0) for k, c in curves_by_key.items()},
        "epochs_below_share_of_start": {
            str(share): {
                str(k): epochs_below(c, share * starts[k]) for k, c in curves_by_key.items()
            }
            for share in config.relative_thresholds
        },
    }


HEADINGS = {
    "uniform": "uniform",
    "td_error": "TD error",
    "stationary": "stationary",
    "stationary_floor": f"stationary, floor {FLOOR}",
}
SHOWN_DISCOUNTS = (0.9, 0.95, 0.98)


def epochs_table(result: ChainResult) -> Table:
    """Epochs to two small errors at some discounts of the sweep, by what weights the updates."""
    share = min(result.config.relative_thresholds)
    rows: list[list[Text | str]] = []
    for discount in SHOWN_DISCOUNTS:
        curves = result.sweep[discount]
        small = share * float(curves["uniform"][0])
        for goal, threshold in (("error 1", 1.0), (f"{share:.0%} of the start", small)):
            epochs = epochs_below(curves, threshold).values()
            fewest = min(count for count in epochs if count is not None)
            cells = [Text("never" if n is None else f"{n:,}", best=n == fewest) for n in epochs]
            rows.append([f"discount {discount}, {goal}", *cells])
    return Table(["epochs to", *HEADINGS.values()], rows)


LOOKS = looks(weighting.strategy for weighting in WEIGHTINGS.values())


def draw_curves(axes: Axes, probability: float, curves: ErrorCurves, share: float) -> None:
    start = float(curves["uniform"][0])
    threshold, goal = (
        (1.0, "error 1") if start > 1 else (share * start, f"{share:.0%} of the start")
    )
    published = PAPER_EPOCHS_BELOW_1.get(str(probability), {}) if threshold == 1 else {}
    last_shown = 1
    axes.axhline(threshold, color="0.5", linewidth=1)
    for weighting, epochs in epochs_below(curves, threshold).items():
        shown, curve = WEIGHTINGS[weighting], curves[weighting]
        look = LOOKS[shown.strategy]
        label = f"{shown.label}: {'never' if epochs is None else epochs}"
        if weighting in published:
            label += f" (paper {published[weighting]})"
        axes.plot(curve, look.style, color=look.colour, linewidth=2, label=label)
        if epochs is not None:
            axes.plot(epochs, curve[epochs], "o", color=look.colour, markersize=6)
            last_shown = max(last_shown, 2 * epochs)
    axes.set(xlabel="epoch", xlim=(0, last_shown), yscale="log")
    axes.set_title(f"Policy goes right with probability {probability}")
    axes.legend(title=f"epochs to {goal}", frameon=False, loc="upper right")


def draw_sweep(axes: Axes, sweep: dict[float, ErrorCurves], probability: float) -> None:
    epochs = [epochs_below(curves, 1.0) for curves in sweep.values()]
    # An error that starts below 1 takes 0 epochs and has no ratio: NaN leaves its point out.
    uniform = np.array([e["uniform"] or np.nan for e in epochs], dtype=np.float64)
    for name, weighting in WEIGHTINGS.items():
        look = LOOKS[weighting.strategy]
        ratio = np.array([e[name] for e in epochs], dtype=np.float64) / uniform
        line: dict[str, Any] = {"color": look.colour, "label": weighting.label, "linewidth": 2}
        axes.plot(list(sweep), ratio, f"o{look.style}", markersize=4, **line)
    axes.set(xlabel="discount", ylabel="epochs to error 1, relative to uniform", ylim=(0, None))
    axes.set_title(f"A larger discount turns the order (probability {probability})")
    axes.legend(frameon=False, loc="upper left")


def save_chain(result: ChainResult, folder: Path) -> list[Path]:
    config = result.config
    content = {
        "settings": asdict(config),
        **summarise(result.curves, config),
        "epochs_below_1_paper": PAPER_EPOCHS_BELOW_1,
        "discount_sweep": {"probability": config.probabilities[0]}
        | summarise(result.sweep, config),
    }
    figure, panels = new_panels(len(result.curves) + 1)
    for axes, (probability, curves) in zip(panels, result.curves.items(), strict=False):
        draw_curves(axes, probability, curves, config.relative_thresholds[0])
    draw_sweep(panels[-1], result.sweep, config.probabilities[0])
    panels[0].set_ylabel(r"mean error $E_{d^\pi}[(Q - Q^\pi)^2]$")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "chain.json"
    path.write_text(json.dumps(content, indent=2) + "\n")
    return [path, save_figure(figure, folder / "chain.png")]
