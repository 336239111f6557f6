"""Theorem 1 of the paper by numbers: B_pi is a gamma-contraction in the d-norm iff d is stationary.

The rewards cancel in B Q - B Q' = gamma P (Q - Q'), so the best factor for a distribution d > 0 is
exact: the largest singular value of gamma D^(1/2) P D^(-1/2).

The paper's section 2 calls the *discounted* visitation d_pi, but the theorem needs the undiscounted
stationary distribution. For the discounted one d P <= d / gamma, hence factors up to sqrt(gamma).

For any d > 0, by Jensen's inequality (P x)_i^2 <= (P x^2)_i, so that ||P x||_d^2 <= (d P) x^2 and
the factor is at most gamma sqrt(max_j (d P)_j / d_j). A floor under the effective sample size mixes
the stationary distribution with the uniform one: d = t d_pi + (1 - t) / K. With c the column sums
of P, d P = t d_pi + (1 - t) c / K, hence (d P)_j / d_j <= max(1, c_j): the bound is gamma at t = 1
and grows towards that of uniform weights, gamma sqrt(max_j c_j), as t falls. So the theorem does
not hold for the mixture, and where P leads most pairs to few, B_pi may not contract in its norm.

Shapes: K = num_states * num_actions pairs of state and action.
"""

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from lfiw.paper.chain import FLOOR, FloatArray, stationary_distribution, with_floor
from lfiw.results.catalogue import looks
from lfiw.results.plot import new_panels, save_figure

LABELS = {"stationary_floor": f"stationary, floor {FLOOR}"}
TOLERANCE = 1e-9  # rounding allowed on a factor before it counts as larger than its bound


@dataclass(frozen=True)
class TheoremConfig:
    num_mdps: int = 1000
    num_states: int = 5
    num_actions: int = 2
    discount: float = 0.9
    num_q_pairs: int = 100
    concentration: float = 0.1  # of the Dirichlet draws: small means nearly deterministic
    uniform_share: float = 0.01  # mixed into every draw, so that no pair has mass near 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("discount", "uniform_share"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; choose it inside (0, 1).")


class Mdp(NamedTuple):
    transition: FloatArray  # [K, K] between pairs, the policy included
    reward: FloatArray  # [K]
    start: FloatArray  # [K] distribution of the first pair


@dataclass(frozen=True)
class TheoremResult:
    """Factors ||B Q - B Q'||_d / ||Q - Q'||_d, one per MDP, by name of the distribution d."""

    config: TheoremConfig
    exact: dict[str, list[float]]  # largest over all Q, Q'
    random_q: dict[str, list[float]]  # largest over the random Q pairs
    counter_examples: dict[str, list[float]]  # of the proof's Q and 0, for d not stationary
    bounds: dict[str, list[float]]  # by Jensen's inequality


def random_distributions(
    config: TheoremConfig, num_rows: int, size: int, rng: np.random.Generator
) -> FloatArray:
    draws = rng.dirichlet(np.full(size, config.concentration), num_rows)
    return (1 - config.uniform_share) * draws + config.uniform_share / size


def make_random_mdp(config: TheoremConfig, rng: np.random.Generator) -> Mdp:
    num_states, num_actions = config.num_states, config.num_actions
    num_pairs = num_states * num_actions
    policy = random_distributions(config, num_states, num_actions, rng)
    next_state = random_distributions(config, num_pairs, num_states, rng)
    first_state = random_distributions(config, 1, num_states, rng)[0]
    return Mdp(
        transition=(next_state[:, :, None] * policy).reshape(num_pairs, num_pairs),
        reward=rng.standard_normal(num_pairs),
        start=(first_state[:, None] * policy).reshape(num_pairs),
    )


def discounted_visitation(mdp: Mdp, discount: float) -> FloatArray:
    """(1 - gamma) sum_t gamma^t d_t (paper, section 2, here normalised to sum to 1)."""
    system = np.eye(len(mdp.start)) - discount * mdp.transition.T
    return np.linalg.solve(system, (1 - discount) * mdp.start)


def contraction_factor(transition: FloatArray, discount: float, d: FloatArray) -> float:
    """sup over Q, Q' of ||B Q - B Q'||_d / ||Q - Q'||_d."""
    root = np.sqrt(d)
    return float(np.linalg.norm(discount * transition * root[:, None] / root, ord=2))


def jensen_bound(transition: FloatArray, discount: float, d: FloatArray) -> float:
    """gamma sqrt(max_j (d P)_j / d_j), at least the factor."""
    return float(discount * np.sqrt(np.max(d @ transition / d)))


def pair_factor(
    mdp: Mdp, discount: float, d: FloatArray, q: FloatArray, other_q: FloatArray
) -> FloatArray:
    """||B Q - B Q'||_d / ||Q - Q'||_d for given Q functions [..., K]."""

    def backup(values: FloatArray) -> FloatArray:
        return mdp.reward + discount * values @ mdp.transition.T

    after = (backup(q) - backup(other_q)) ** 2 @ d
    before = (q - other_q) ** 2 @ d
    return np.sqrt(after / before)


def counter_example(transition: FloatArray, d: FloatArray) -> FloatArray:
    """A Q whose distance to Q' = 0 shrinks by less than gamma (proof of Theorem 1, 'only if').

    Q is 1, raised by nu where d' = d P exceeds d. With `gain` the mass of d' - d there and `mass`
    that of d, the proof's (h - g)(Q) is at least nu (2 gain - nu mass). It is positive for every
    nu <= gain / mass, so nu need not be infinitesimal.
    """
    next_d = d @ transition
    raised = next_d > d
    gain, mass = float((next_d - d)[raised].sum()), float(d[raised].sum())
    if gain <= TOLERANCE:
        raise ValueError(f"d P exceeds d by {gain} only; choose a d that is not stationary.")
    return 1 + gain / max(mass, gain) * raised


def distributions(
    mdp: Mdp, config: TheoremConfig, rng: np.random.Generator
) -> dict[str, FloatArray]:
    num_pairs = len(mdp.start)
    stationary = stationary_distribution(mdp.transition)
    return {
        "stationary": stationary,
        "stationary_floor": with_floor(num_pairs * stationary, FLOOR) / num_pairs,
        "discounted": discounted_visitation(mdp, config.discount),
        "uniform": np.full(num_pairs, 1 / num_pairs),
        "random": random_distributions(config, 1, num_pairs, rng)[0],
    }


def run_theorem(config: TheoremConfig) -> TheoremResult:
    rng = np.random.default_rng(config.seed)
    exact: dict[str, list[float]] = defaultdict(list)
    random_q: dict[str, list[float]] = defaultdict(list)
    counter_examples: dict[str, list[float]] = defaultdict(list)
    bounds: dict[str, list[float]] = defaultdict(list)
    for _ in range(config.num_mdps):
        mdp = make_random_mdp(config, rng)
        q, other_q = rng.standard_normal((2, config.num_q_pairs, len(mdp.start)))
        for name, d in distributions(mdp, config, rng).items():
            exact[name].append(contraction_factor(mdp.transition, config.discount, d))
            bounds[name].append(jensen_bound(mdp.transition, config.discount, d))
            random_q[name].append(float(pair_factor(mdp, config.discount, d, q, other_q).max()))
            if not np.allclose(d @ mdp.transition, d):
                raised_q = counter_example(mdp.transition, d)
                zero_q = np.zeros_like(d)
                factor = pair_factor(mdp, config.discount, d, raised_q, zero_q)
                counter_examples[name].append(float(factor))
    return TheoremResult(config, dict(exact), dict(random_q), dict(counter_examples), dict(bounds))


def summarise_theorem(result: TheoremResult) -> dict[str, Any]:
    discount = result.config.discount
    return {
        "settings": asdict(result.config),
        "tolerance": TOLERANCE,
        "bound": {"stationary": discount, "discounted": discount**0.5},
        "largest_factor": {name: max(f) for name, f in result.exact.items()},
        "largest_factor_of_random_q": {name: max(f) for name, f in result.random_q.items()},
        "smallest_factor_of_counter_example": {
            name: min(f) for name, f in result.counter_examples.items()
        },
        "num_mdps_above_discount": {
            name: sum(factor > discount + TOLERANCE for factor in f)
            for name, f in result.exact.items()
        },
        "num_mdps_that_contract": {
            name: sum(factor < 1 for factor in f) for name, f in result.exact.items()
        },
        "largest_share_of_jensen_bound": {
            name: max(np.divide(f, result.bounds[name])) for name, f in result.exact.items()
        },
    }


def draw_theorem(result: TheoremResult) -> Figure:
    """The exact factors of all MDPs in rising order: near the bounds, and all."""
    discount = result.config.discount
    bounds = {r"$\gamma$": discount, r"$\sqrt{\gamma}$": discount**0.5}
    styles = looks(("lfiw-floor", "discounted", "random"))
    # As in the chain's figure.
    styles |= {"stationary": styles["lfiw"], "stationary_floor": styles["lfiw-floor"]}
    figure, (near, whole) = new_panels(2)
    for axes in (near, whole):
        for name, factors in result.exact.items():
            share = np.arange(1, len(factors) + 1) / len(factors)
            line: dict[str, Any] = {
                "color": styles[name].colour,
                "label": f"d {LABELS.get(name, name)}",
            }
            axes.plot(share, np.sort(factors), styles[name].style, linewidth=2, **line)
        for bound in bounds.values():
            axes.axhline(bound, color="0.6", linewidth=1, zorder=0)
        axes.set_xlabel("share of the random MDPs")
    for label, bound in bounds.items():
        near.annotate(label, (1.01, bound), xycoords=("axes fraction", "data"), va="center")
    room = 0.2 * (discount**0.5 - discount)
    near.set_ylim(discount - room, discount**0.5 + room)
    near.set(title="Near the bounds", ylabel="largest contraction factor")
    whole.set_title("All of them, on a logarithmic scale")
    whole.set_yscale("log")
    whole.legend(frameon=False, loc="upper left")
    return figure


def save_theorem(result: TheoremResult, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "theorem.json"
    path.write_text(json.dumps(summarise_theorem(result), indent=2) + "\n")
    return [path, save_figure(draw_theorem(result), folder / "theorem.png")]
