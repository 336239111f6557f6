"""Pictures: panels, learning curves, files."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from lfiw.errors import InputError
from lfiw.results.catalogue import AGES, LOOKS, Look, looks
from lfiw.results.curves import Curves
from lfiw.results.method import Method
from lfiw.runs.files import make_parent
from lfiw.wording import count

FORMATS = {".png", ".pdf", ".svg"}
PANELS_PER_ROW = 3
LINE_LENGTH = 40
EVENNESS = {
    "raw_effective_sample_size": "effective sample size before the floor",
    "effective_sample_size": "effective sample size after it",
    "trust": "trust",
}


def check_picture(out: str | Path) -> Path:
    """The path, if it can become a picture."""
    path = Path(out)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{out}: the file name must end in one of {', '.join(sorted(FORMATS))}.")
    return path


def plain(text: str) -> str:
    """Text that matplotlib shows as it is, dollar signs too, in lines that a panel holds."""
    return textwrap.fill(text, LINE_LENGTH).replace("$", r"\$")


def new_panels(number: int, columns: int = PANELS_PER_ROW) -> tuple[Figure, list[Axes]]:
    columns = min(number, columns)
    rows = math.ceil(number / columns)
    figure = Figure(figsize=(6.4 * columns, 4.2 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels[number:]:
        axes.remove()
    for axes in panels[:number]:
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels[:number]


def agent_panels(curves: Sequence[Curves]) -> tuple[Figure, dict[tuple[str, str], Axes]]:
    """One panel per environment and agent that has a curve. Several agents stand side by side, one
    row per environment."""
    envs = dict.fromkeys(curve.env for curve in curves)
    agents = dict.fromkeys(curve.agent for curve in curves)
    places = list(itertools.product(envs, agents))
    figure, axes = new_panels(len(places), len(agents) if len(agents) > 1 else PANELS_PER_ROW)
    panels = dict(zip(places, axes, strict=True))
    for empty in panels.keys() - {(curve.env, curve.agent) for curve in curves}:
        panels.pop(empty).remove()
    for (env, agent), panel in panels.items():
        panel.set_title(plain(f"{env}, {agent}" if agent else env))
        panel.set_xlabel("environment steps")
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    return figure, panels


def save_figures(figure: Figure, stem: Path, suffixes: Sequence[str]) -> list[Path]:
    """One figure in several formats. The layout, most of the work, is that of the first."""
    paths = []
    for suffix in suffixes:
        paths.append(save_figure(figure, stem.with_name(stem.name + suffix)))
        figure.set_layout_engine("none")
    return paths


def save_figure(figure: Figure, path: Path) -> Path:
    """The same figure gives the same bytes: no date, no random names."""
    make_parent(path)
    dates = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    with matplotlib.rc_context({"svg.hashsalt": "lfiw"}):
        figure.savefig(path, dpi=110, metadata=dates.get(path.suffix))
    return path


def plot_curves(
    curves: Sequence[Curves],
    out: str | Path,
    smooth: int = 1,
    strategies: Sequence[str] | None = None,
) -> Path:
    """One line per method: mean and shaded standard deviation, of running means over `smooth`
    evaluations. Each curve has the look of its strategy, or of that given in its place."""
    path = check_picture(out)
    if smooth < 1 or smooth % 2 == 0:
        raise InputError(
            f"The number of evaluations in a running mean must be odd and at least 1, not {smooth}."
        )
    return save_figure(curves_figure(curves, smooth, strategies), path)


def curves_figure(
    curves: Sequence[Curves], smooth: int = 1, strategies: Sequence[str] | None = None
) -> Figure:
    curves = [curve.smoothed(smooth) for curve in curves]
    figure, panels = agent_panels(curves)
    strategies = strategies or [curve.strategy for curve in curves]
    styles = looks(strategies)  # the same in every panel
    for curve, strategy in zip(curves, strategies, strict=True):
        _plot_curve(panels[curve.env, curve.agent], curve, styles[strategy])
    for axes in panels.values():
        axes.set_ylabel("return, mean and standard deviation over seeds")
        axes.legend(frameon=False, loc="best")
    if smooth > 1:
        figure.supxlabel(f"Running means over {smooth} evaluations", fontsize="small")
    return figure


def weights_figure(method: Method) -> Figure:
    """How LFIW weights in the course of training, by means over seeds: by the age of transitions,
    and how evenly."""
    figure, (by_age, evenly) = new_panels(2)
    steps = method.curves.env_steps
    of_ages = method.logged("weight_by_age").mean(axis=0).T
    for (title, colour, dash), weights in zip(AGES, of_ages, strict=True):
        style = (0, tuple(map(float, dash.split()))) if dash else "-"
        by_age.plot(steps, weights, linestyle=style, color=colour, label=title)
    by_age.set_ylabel("mean weight")
    for look, (name, title) in zip(LOOKS, EVENNESS.items(), strict=False):
        if method.has(name):
            values = method.logged(name).mean(axis=0)
            evenly.plot(steps, values, look.style, color=look.colour, label=title)
    evenly.set_ylabel("share of the batch")
    for axes in (by_age, evenly):
        axes.set_title(plain(f"{method.task}, {method.title}"))
        axes.set_xlabel("environment steps")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, loc="best")
    return figure


def _plot_curve(axes: Axes, curve: Curves, look: Look) -> None:
    mean = curve.returns.mean(axis=0)
    label = plain(f"{curve.method} ({count(len(curve.seeds), 'seed')})")
    marker = "o" if len(curve.env_steps) == 1 else None
    axes.plot(curve.env_steps, mean, look.style, color=look.colour, label=label, marker=marker)
    if len(curve.seeds) > 1:
        deviation = curve.returns.std(axis=0, ddof=1)
        band = (mean - deviation, mean + deviation)
        axes.fill_between(curve.env_steps, *band, color=look.colour, alpha=0.18, lw=0)
