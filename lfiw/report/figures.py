"""The figures of a report for print: curves, diagnostics and profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from lfiw.report.summary import Aggregate, Summary
from lfiw.results.catalogue import Look, looks
from lfiw.results.method import Method
from lfiw.results.plot import agent_panels, curves_figure, new_panels, plain, save_figures
from lfiw.runs.metrics import WITH_FIGURE, Metric

SUFFIXES = (".png", ".pdf")
# Where a legend covers no curve: some figures have them in every corner.
BELOW: dict[str, Any] = {
    "loc": "upper center",
    "bbox_to_anchor": (0.5, -0.15),
    "ncols": 2,
    "frameon": False,
}


def write_figures(methods: Sequence[Method], summary: Summary, folder: Path) -> list[Path]:
    curves = [method.curves for method in methods]
    styles = looks(curve.strategy for curve in curves)  # a strategy looks alike in all figures
    figures = {"curves": curves_figure(curves)} | {
        metric.name: _diagnostic_figure(shown, metric, styles)
        for metric in WITH_FIGURE
        if (shown := [method for method in methods if metric.name in method.diagnostics])
    }
    if summary.aggregates:
        strategies = {method.name: method.curves.strategy for method in methods}
        of_methods = {name: styles[strategy] for name, strategy in strategies.items()}
        figures["profiles"] = _profile_figure(summary, of_methods)
    saved = [save_figures(figure, folder / name, SUFFIXES) for name, figure in figures.items()]
    return [path for paths in saved for path in paths]


def _diagnostic_figure(
    methods: Sequence[Method], metric: Metric, styles: dict[str, Look]
) -> Figure:
    """One line per method: the mean over seeds."""
    figure, panels = agent_panels([method.curves for method in methods])
    for method in methods:
        look = styles[method.curves.strategy]
        steps, mean = method.curves.env_steps, method.diagnostics[metric.name].mean(axis=0)
        axes = panels[method.task, method.agent]
        axes.plot(steps, mean, look.style, color=look.colour, label=plain(method.title))
    for axes in panels.values():
        axes.set_ylabel(metric.title)
        if metric.log:
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
            look, profile = styles[aggregate.entry.name], aggregate.profile
            assert profile is not None  # of a single agent
            label = plain(aggregate.entry.title)
            axes.plot(summary.thresholds, profile.value, look.style, color=look.colour, label=label)
            band = (profile.low, profile.high)
            axes.fill_between(summary.thresholds, *band, color=look.colour, alpha=0.15, lw=0)
        axes.set_title(plain(agent.upper()))
        axes.set_xlabel(plain(f"score ({summary.base} ends at 1)"))
        axes.set_ylabel("share of runs above\n(band: 95 %)")
        axes.legend(**BELOW)
    return figure
