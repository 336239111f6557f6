"""The demonstration: what a floor does on the paper's chain MDP, then a small training."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from lfiw.cli.options import Command, unset
from lfiw.errors import InputError

if TYPE_CHECKING:
    from lfiw.learning.config import TrainConfig

DEMO_ENV = "Pendulum-v1"
DEMO_ENV_STEPS = 10_000
SMALL_NETWORKS = (128, 128)
CHAIN = (
    "Five states in a row. Updates of Q are weighted in four ways, all with the same sum of "
    "weights. Weights by the policy's own stationary distribution, which LFIW estimates, start "
    "fastest, but neglect rare pairs, from which all else bootstraps: with a larger discount "
    "they end last. A floor under their effective sample size, LFIW's default, takes the fewest "
    "epochs in each of these rows. Below a discount of 0.9 the weights without a floor are faster: "
    "the figure's right panel has all discounts."
)
TASK = (
    f"SAC learns {DEMO_ENV} with uniform replay and with LFIW, three seeds each. Both solve it in "
    "minutes, so it cannot tell them apart. It shows that all works on this machine: training, "
    "weights, evaluation, and the report below. README.md has the results on harder tasks, a "
    "million steps each."
)


@dataclass
class Demo(Command):
    """The paper's chain MDP with and without a floor, then SAC on a small task; one page of all."""

    out: Annotated[Path | None, unset("PATH", "a new folder below runs/")] = None
    """Where everything goes."""

    def run(self, console: Console) -> None:
        out = self.out or Path("runs") / f"demo-{datetime.now():%Y%m%d-%H%M%S}"
        run_demo(out, console, self.quiet)


def run_demo(out: str | Path, console: Console, quiet: bool = False) -> None:
    from lfiw.paper.chain import ChainConfig, epochs_table, run_chain, save_chain
    from lfiw.report import write_report
    from lfiw.report.page import Chapter, Preface
    from lfiw.results.curves import comparison_table, read_curves
    from lfiw.training import train_all

    folder = Path(out)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InputError(f"{folder} already holds something: choose another --out.")
    console.print("1. Why a floor: errors of Q on the paper's chain MDP", style="bold")
    result = run_chain(ChainConfig())
    *_, picture = save_chain(result, folder)
    epochs = epochs_table(result)
    console.print(CHAIN)
    console.print(epochs)

    console.print(f"2. That all works: SAC on {DEMO_ENV}", style="bold")
    console.print(TASK)
    trainings = train_all(demo_configs(), out=folder, quiet=quiet)
    console.print(comparison_table([read_curves(training.folder) for training in trainings]))
    chapters = (
        Chapter("Why a floor: errors of Q on a chain of five states", CHAIN, picture, epochs),
        Chapter(f"That all works: SAC on {DEMO_ENV}", TASK),
    )
    page, *_ = write_report([folder], folder / "report", preface=Preface("lfiw demo", chapters))
    console.print(f"Everything on one page: {page}", soft_wrap=True)


def demo_configs() -> list[TrainConfig]:
    """Weights begin after a fifth of the training."""
    from lfiw.learning.config import make_config

    common: dict[str, Any] = {
        "seeds": (0, 1, 2),
        "env_steps": DEMO_ENV_STEPS,
        "random_env_steps": 1000,
        "learning_starts": 1000,
        "eval_every_env_steps": 500,
        "agent.hidden_sizes": SMALL_NETWORKS,
    }
    weights: dict[str, Any] = {
        "replay.hidden_sizes": SMALL_NETWORKS,
        "replay.fast_size": 1000,
        "replay.warmup_env_steps": 2000,
    }
    return [
        make_config(DEMO_ENV, "sac", "uniform", **common),
        make_config(DEMO_ENV, "sac", "lfiw", **common, **weights),
    ]
