"""Comparing a method with a baseline, uniform replay by itself, and with LFIW as published."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lfiw.errors import InputError
from lfiw.older import modern
from lfiw.results.catalogue import PUBLISHED
from lfiw.results.curves import Curves
from lfiw.results.method import Method
from lfiw.results.statistics import (
    Interval,
    bootstrap,
    efficiency_ratio,
    mean_of_drawn,
    probability_of_improvement,
)
from lfiw.wording import nearest

SMOOTHED_EVALUATIONS = 5  # before the first evaluation at which a curve reaches a level


def choose_baseline(methods: Sequence[Method], named: str = "") -> str:
    """The name of the method that all others are compared with; empty for uniform replay with the
    agent of each. Logs of other libraries without it are compared with the first of them."""
    if not methods:
        raise InputError("There is no method to compare; name folders with runs or results.")
    known = {method.name for method in methods}
    if named and named not in known:
        raise InputError(f"No run is of the method {named!r}.{nearest(named, known)}")
    if named or any(_is_uniform(method) or not method.is_foreign for method in methods):
        return named
    return methods[0].name


def base_of(method: Method, methods: Sequence[Method], baseline: str = "") -> Method | None:
    """The baseline on the same task, trained as long. By itself it is uniform replay with the same
    agent, of the same label if there is one; uniform replay with a label is compared with that
    without."""
    if baseline:
        named = (one for one in methods if one.name == baseline and _as_long(one, method))
        return next(named, None)
    uniform = {one.label: one for one in methods if _is_uniform(one) and _alike(one, method)}
    if _is_uniform(method):
        return uniform.get("", method)
    return uniform.get(method.label, uniform.get(""))


def published_of(method: Method, methods: Sequence[Method]) -> Method | None:
    """LFIW as published with the same agent on the same task, trained as long: without a floor, and
    without a label but for the one that says so."""
    found = {one.label: one for one in methods if _is_published(one) and _alike(one, method)}
    return found.get(PUBLISHED, found.get(""))


def _is_published(method: Method) -> bool:
    replay = modern(method.config).get("replay") or {}
    return method.replay == "lfiw" and replay["min_effective_sample_size"] == 0


def _is_uniform(method: Method) -> bool:
    return (method.curves.strategy if method.is_foreign else method.replay) == "uniform"


def _alike(one: Method, other: Method) -> bool:
    """Of one task, agent and length: what can be compared."""
    return one.agent == other.agent and _as_long(one, other)


def _as_long(one: Method, other: Method) -> bool:
    return (one.task, one.curves.env_steps[-1]) == (other.task, other.curves.env_steps[-1])


def resampled(statistic: Callable[..., np.ndarray], *samples: Sequence[np.ndarray]) -> Interval:
    """An interval that does not depend on what else is in the report."""
    return bootstrap(statistic, *samples, rng=np.random.default_rng(0))


def at_shared_steps(method: Method, other: Method) -> tuple[Curves, Curves]:
    """Both at the evaluations that both had: means over more of them would vary less."""
    steps = np.intersect1d(method.curves.env_steps, other.curves.env_steps)
    return method.curves.at(steps), other.curves.at(steps)


def improvement(methods: Sequence[Method], others: Sequence[Method]) -> Interval:
    """The probability that a run ends above one of the others, which are as long."""
    pairs = [at_shared_steps(method, other) for method, other in zip(methods, others, strict=True)]
    ours = [own.final() for own, _ in pairs]
    theirs = [other.final() for _, other in pairs]
    return resampled(probability_of_improvement, ours, theirs)


def efficiency(method: Method, base: Method) -> Interval | None:
    """Of curves that are smoothed, at the evaluations that both had; None where those are few."""
    curves, base_curves = at_shared_steps(method, base)
    shared = curves.env_steps
    if len(shared) < 2 * SMOOTHED_EVALUATIONS:
        return None
    ours = curves.smoothed(SMOOTHED_EVALUATIONS).returns
    theirs = base_curves.smoothed(SMOOTHED_EVALUATIONS).returns
    finals = base_curves.final()[:, None]

    def ratio(drawn: list[np.ndarray], base_drawn: list[np.ndarray]) -> np.ndarray:
        goal = mean_of_drawn(finals, base_drawn[0])[..., 0]
        curve, base_curve = mean_of_drawn(ours, drawn[0]), mean_of_drawn(theirs, base_drawn[0])
        return efficiency_ratio(curve, base_curve, goal, shared)

    return resampled(ratio, [np.arange(len(ours))], [np.arange(len(theirs))])


def normalised(returns: np.ndarray, base: Curves) -> np.ndarray:
    """Returns on a scale where the baseline's mean first evaluation is 0 and its mean final
    return 1; not a number where it learned nothing."""
    start = base.returns[:, 0].mean()
    span = base.final().mean() - start
    return (returns - start) / (span if span > 0 else np.nan)
