"""The figures of a report for print: curves, diagnostics and profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from lfiw.report.summary import Aggregate, Summary
from lfiw.results.methods import Method
from lfiw.results.plot import Look, agent_panels, looks, new_panels, plain, plot_curves, save_figure

SUFFIXES = (".png", ".pdf")
DIAGNOSTIC_FIGURES = {
    "q_mean": "mean Q of the batch",
    "effective_sample_size": "effective sample size, share of the batch",
    "balanced_accuracy": "balanced accuracy of the ratio network",
}
# Where a legend covers no curve: some figures have them in every corner.
BELOW: dict[str, Any] = {
    "loc": "upper center",
    "bbox_to_anchor": (0.5, -0.15),
    "ncols": 2,
    "frameon": False,
}


def write_figures(methods: Sequence[Method], summary: Summary, folder: Path) -> list[Path]:
    curves = [method.curves for method in methods]
    written = [plot_curves(curves, folder / f"curves{suffix}") for suffix in SUFFIXES]
    styles = looks(curve.strategy for curve in curves)  # a strategy looks alike in all figures
    figures = {
        name: _diagnostic_figure(shown, name, styles)
        for name in DIAGNOSTIC_FIGURES
        if (shown := [method for method in methods if name in method.diagnostics])
    }
    if summary.aggregates:
        strategies = {method.name: method.curves.strategy for method in methods}
        of_methods = {name: styles[strategy] for name, strategy in strategies.items()}
        figures["profiles"] = _profile_figure(summary, of_methods)
    return written + [
        save_figure(figure, folder / f"{name}{suffix}")
        for name, figure in figures.items()
        for suffix in SUFFIXES
    ]


def _diagnostic_figure(methods: Sequence[Method], name: str, styles: dict[str, Look]) -> Figure:
    """One line per method: the mean over seeds."""
    figure, panels = agent_panels([method.curves for method in methods])
    for method in methods:
        colour, style = styles[method.curves.strategy]
        steps, mean = method.curves.env_steps, method.diagnostics[name].mean(axis=0)
        axes = panels[method.task, method.agent]
        axes.plot(steps, mean, style, color=colour, label=plain(method.title))
    for axes in panels.values():
        axes.set_ylabel(DIAGNOSTIC_FIGURES[name])
        if name == "effective_sample_size":
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")  # 0.5, not 5 x 10^-1
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.legend(**BELOW)
    return figure


def _profile_figure(summary: Summary, styles: dict[str, Look]) -> Figure:
    """One panel per agent: the share of runs above each score, with its band."""
    groups: dict[str, list[Aggregate]] = {}
    for aggregate in summary.aggregates:
        groups.setdefault(aggregate.entry.agent, []).append(aggregate)
    figure, panels = new_panels(len(groups))
    for axes, (agent, group) in zip(panels, groups.items(), strict=True):
        for aggregate in group:
            colour, style = styles[aggregate.entry.name]
            profile, label = aggregate.profile, plain(aggregate.entry.title)
            axes.plot(summary.thresholds, profile.value, style, color=colour, label=label)
            axes.fill_between(
                summary.thresholds, profile.low, profile.high, color=colour, alpha=0.15, lw=0
            )
        axes.set_title(plain(agent.upper()))
        axes.set_xlabel("score (uniform replay ends at 1)")
        axes.set_ylabel("share of runs above, with 95 % band")
        axes.legend(**BELOW)
    return figure
