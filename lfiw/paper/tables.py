"""Tables and figures from the logs of finished runs: Table 1, the ablations, the side notes."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lfiw.errors import InputError
from lfiw.paper.cells import Study
from lfiw.results.catalogue import MEASURES, ORANGE, PUBLISHED, SKY, STRATEGIES
from lfiw.results.curves import Curves, read_curves
from lfiw.results.plot import new_panels, plot_curves, save_figure
from lfiw.results.published import published
from lfiw.results.readme import paper_form
from lfiw.results.table import Table
from lfiw.runs.files import write_json
from lfiw.runs.metrics import METRICS
from lfiw.runs.read import read_rows
from lfiw.settings import walk
from lfiw.training.folder import Training
from lfiw.wording import deviation, mean_and_deviation, no_formula

WHAT_WEIGHTS_SEE = {"balanced_accuracy": ORANGE, "effective_sample_size": SKY}
PARTS_OF_TRAINING = 10  # over which the side notes average their diagnostics


def summary(curves: Curves) -> dict[str, Any]:
    """Each measure's mean and standard deviation over seeds."""
    return {
        "env": curves.env,
        "method": curves.method,
        "seeds": list(curves.seeds),
        "env_steps": int(curves.env_steps[-1]),
        "evaluations": len(curves.env_steps),
        **{
            measure.short: {"mean": float(values.mean()), "std": deviation(values)}
            for measure in MEASURES
            for values in (measure.of(curves),)
        },
    }


def spread_text(numbers: dict[str, Any] | None) -> str:
    return mean_and_deviation(numbers["mean"], numbers["std"]) if numbers else ""


def write_rows(rows: Sequence[dict[str, Any]], stem: Path) -> list[Path]:
    """The same table as CSV, with plain numbers, and as Markdown, for people."""
    paths = [stem.with_suffix(".csv"), stem.with_suffix(".md")]
    spreads = [name for name in rows[0] if any(isinstance(row[name], dict) for row in rows)]
    plain = [name for name in rows[0] if name not in (*spreads, "seeds", "evaluations")]
    with paths[0].open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        parts = [f"{name}_{part}" for name in spreads for part in ("mean", "std")]
        writer.writerow([*plain, "num_seeds", *parts])
        for row in rows:
            numbers = [(row[name] or {}).get(p) for name in spreads for p in ("mean", "std")]
            names = (no_formula(row[name]) for name in plain)
            writer.writerow([*names, len(row["seeds"]), *numbers])
    cells = [
        [*(str(row[name]) for name in plain), str(len(row["seeds"]))]
        + [spread_text(row[name]) for name in spreads]
        for row in rows
    ]
    table = Table([*plain, "seeds", *spreads], cells)
    paths[1].write_text(table.markdown(), encoding="utf-8")
    return paths


def analyse_table1(study: Study) -> list[Path]:
    """The table, beside the published numbers, and the curves of Figures 2 and 3."""
    curves = [read_curves(training.folder) for training in study.trainings]
    rows = []
    for curve in curves:
        paper = published(curve.env, curve.method)
        rows.append(summary(curve) | {"paper_max": paper._asdict() if paper else None})
    stem = study.out / study.name
    write_json(stem.with_suffix(".json"), {"scale": study.scale, "rows": rows})
    files = write_rows(rows, stem)
    stem.with_suffix(".md").write_text(paper_form(curves), encoding="utf-8")
    return [stem.with_suffix(".json"), *files, plot_curves(curves, stem.with_suffix(".png"))]


def analyse_ablation(study: Study, setting: str) -> list[Path]:
    """Final, maximum and area by the value of one setting."""

    def value_of(training: Training) -> Any:
        value = {name: value for name, _, value in walk(training.config)}.get(setting)
        if value is None:
            raise InputError(f"{training.folder} has no setting {setting}.")
        return value[0] if isinstance(value, tuple) else value

    runs = sorted(study.trainings, key=value_of)
    short = setting.rpartition(".")[2]
    values = [value_of(training) for training in runs]
    trained = [read_curves(training.folder) for training in runs]
    names = [f"{short} = {value:,g}" for value in values]
    curves = [replace(c, method=name) for c, name in zip(trained, names, strict=True)]
    rows = [{short: value} | summary(c) for value, c in zip(values, curves, strict=True)]
    stem = study.out / study.name
    write_json(stem.with_suffix(".json"), {"scale": study.scale, "setting": setting, "rows": rows})
    files = write_rows(rows, stem)
    strategies = [curve.strategy for curve in trained]
    picture = plot_curves(curves, stem.with_suffix(".png"), strategies=strategies)
    return [stem.with_suffix(".json"), *files, picture]


def over_training(training: Training, name: str) -> list[float | None]:
    """A diagnostic's mean over seeds in each part of training; None before it exists."""
    parts: list[list[float]] = [[] for _ in range(PARTS_OF_TRAINING)]
    for row in read_rows(training.folder, "train"):
        if row.get(name) is not None:
            part = (row["env_steps"] - 1) * PARTS_OF_TRAINING // training.config.env_steps
            parts[part].append(row[name])
    return [float(np.mean(part)) if part else None for part in parts]


def mean_returns(curves: Curves, env_steps: int) -> list[float | None]:
    """The mean return over seeds in each part of training."""
    part = (curves.env_steps - 1) * PARTS_OF_TRAINING // env_steps
    mean = curves.returns.mean(axis=0)
    means = [mean[part == index] for index in range(PARTS_OF_TRAINING)]
    return [float(values.mean()) if len(values) else None for values in means]


def plateau(uniform: Training, weighted: Training) -> dict[str, Any]:
    """What the weights see and what they gain, by part of training."""
    plain, lfiw = (
        mean_returns(read_curves(training.folder), training.config.env_steps)
        for training in (uniform, weighted)
    )
    gains = [None if a is None or b is None else b - a for a, b in zip(plain, lfiw, strict=True)]
    steps = weighted.config.env_steps
    ends = [steps * (part + 1) // PARTS_OF_TRAINING for part in range(PARTS_OF_TRAINING)]
    return {
        "env": weighted.config.env.id,
        "agent": weighted.config.agent.name,
        "env_steps": ends,
        **{name: over_training(weighted, name) for name in WHAT_WEIGHTS_SEE},
        "return_uniform": plain,
        "return_lfiw": lfiw,
        "gain": gains,
    }


def draw_plateaus(plateaus: Sequence[dict[str, Any]], path: Path) -> Path:
    figure, panels = new_panels(2 * len(plateaus), columns=len(plateaus))
    upper_row, lower_row = panels[: len(plateaus)], panels[len(plateaus) :]
    for upper, lower, shown in zip(upper_row, lower_row, plateaus, strict=True):
        steps = shown["env_steps"]
        for name, colour in WHAT_WEIGHTS_SEE.items():
            numbers = np.array(shown[name], float)
            upper.plot(steps, numbers, "o-", color=colour, label=METRICS[name].title)
        upper.set(title=f"{shown['env']}, {shown['agent']} + LFIW", ylim=(0, 1.02))
        upper.legend(frameon=False)
        lower.axhline(0, color="0.5", linewidth=1)
        lower.plot(steps, np.array(shown["gain"], float), "o-", color=STRATEGIES["lfiw"].colour)
        lower.set(xlabel="environment steps", ylabel="return of LFIW less that of uniform")
    return save_figure(figure, path)


def analyse_side_notes(study: Study) -> list[Path]:
    """Weights on the policy too, PER x LFIW, and what the weights see beside what they gain."""
    curves = [read_curves(training.folder) for training in study.trainings]
    rows = [summary(curve) for curve in curves]
    by_name = {
        (training.config.env.id, training.folder.name): training for training in study.trainings
    }
    plateaus = [
        plateau(by_name[env, f"{agent}-uniform"], training)
        for (env, name), training in by_name.items()
        if name == f"{(agent := training.config.agent.name)}-lfiw-{PUBLISHED}"
        and (env, f"{agent}-uniform") in by_name
    ]
    stem = study.out / study.name
    content = {"scale": study.scale, "rows": rows, "over_training": plateaus}
    write_json(stem.with_suffix(".json"), content)
    files = [stem.with_suffix(".json"), *write_rows(rows, stem)]
    files.append(plot_curves(curves, stem.with_suffix(".png")))
    if plateaus:
        files.append(draw_plateaus(plateaus, study.out / f"{study.name}-over-training.png"))
    return files
