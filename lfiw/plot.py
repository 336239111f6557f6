"""Learning curves as a picture. No jax here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from lfiw.curves import Curves
from lfiw.errors import InputError
from lfiw.runlog import make_parent

# Okabe and Ito's palette: told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")
FORMATS = {".png", ".pdf", ".svg"}
PANELS_PER_ROW = 3


def check_picture(out: str | Path) -> Path:
    """The path, if it can become a picture."""
    path = Path(out)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{out}: the file name must end in one of {', '.join(sorted(FORMATS))}.")
    return path


def plot_curves(curves: Sequence[Curves], out: str | Path) -> Path:
    """One panel per environment and agent, one line per method: mean and shaded standard
    deviation."""
    path = check_picture(out)
    groups: dict[str, list[Curves]] = {}
    for curve in curves:
        groups.setdefault(f"{curve.env}, {curve.agent}", []).append(curve)
    columns = min(len(groups), PANELS_PER_ROW)
    rows = math.ceil(len(groups) / columns)
    figure = Figure(figsize=(6.4 * columns, 4.2 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    strategies = list(dict.fromkeys(curve.strategy for curve in curves))
    for axes, (title, group) in zip(panels, groups.items(), strict=False):
        _plot_panel(axes, title, group, strategies)
    for axes in panels[len(groups) :]:
        axes.remove()
    make_parent(path)
    with matplotlib.rc_context({"svg.hashsalt": "lfiw"}):
        figure.savefig(path, dpi=150)
    return path


def _plot_panel(
    axes: Axes, title: str, curves: Sequence[Curves], strategies: Sequence[str]
) -> None:
    for curve in curves:
        index = strategies.index(curve.strategy)  # the same colour in every panel
        colour = COLOURS[index % len(COLOURS)]
        style = STYLES[index // len(COLOURS) % len(STYLES)]
        mean, deviation = curve.returns.mean(axis=0), curve.returns.std(axis=0)
        label = f"{curve.method} ({len(curve.seeds)} seeds)"
        marker = "o" if len(curve.env_steps) == 1 else None
        axes.plot(curve.env_steps, mean, style, color=colour, label=label, marker=marker)
        axes.fill_between(
            curve.env_steps, mean - deviation, mean + deviation, color=colour, alpha=0.18, lw=0
        )
    axes.set_title(title)
    axes.set_xlabel("environment steps")
    axes.set_ylabel("return, mean and standard deviation over seeds")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best")
