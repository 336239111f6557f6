"""The demonstration: the paper's chain MDP, then uniform against LFIW on a small task."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

from rich.console import Console

from lfiw.cli.options import Command, unset

DEMO_ENV = "Pendulum-v1"
DEMO_ENV_STEPS = 10_000
SMALL_NETWORKS = (128, 128)


@dataclass
class Demo(Command):
    """The paper's chain MDP, then SAC with uniform and with LFIW replay on a small task."""

    out: Annotated[Path | None, unset("PATH", "a new folder below runs/")] = None
    """Where everything goes."""

    def run(self, console: Console) -> None:
        out = self.out or Path("runs") / f"demo-{datetime.now():%Y%m%d-%H%M%S}"
        run_demo(out, console, self.quiet)


def run_demo(out: str | Path, console: Console, quiet: bool = False) -> None:
    from lfiw.learning.config import make_config
    from lfiw.paper.chain import ChainConfig, epochs_below, run_chain, save_chain
    from lfiw.results.curves import comparison_table, read_curves
    from lfiw.results.plot import plot_curves
    from lfiw.settings import override
    from lfiw.training import train_all

    folder = Path(out)
    console.print("1. The chain MDP of the paper's Figure 1", style="bold")
    chain = run_chain(ChainConfig())
    epochs = epochs_below(chain.curves[0.8], 1.0)
    *_, picture = save_chain(chain, folder)
    console.print(
        "   epochs until the error of Q falls below 1, by what weights the updates: "
        + ", ".join(f"{name} {count}" for name, count in epochs.items())
    )
    console.print(f"   figure: {picture}", soft_wrap=True)

    console.print(f"2. SAC with uniform and with LFIW replay on {DEMO_ENV}", style="bold")
    configs = []
    for replay in ("uniform", "lfiw"):
        config = make_config(
            DEMO_ENV,
            "sac",
            replay,
            seeds=(0, 1, 2),
            env_steps=DEMO_ENV_STEPS,
            random_env_steps=1000,
            learning_starts=1000,
            eval_every_env_steps=500,
        )
        config = override(config, "agent.hidden_sizes", SMALL_NETWORKS)
        if replay == "lfiw":
            config = override(config, "replay.hidden_sizes", SMALL_NETWORKS)
            config = override(config, "replay.fast_size", 1000)
            config = override(config, "replay.warmup_env_steps", 2000)
        configs.append(config)
    curves = [read_curves(run.folder) for run in train_all(configs, out=folder, quiet=quiet)]
    console.print(comparison_table(curves))
    console.print(f"Learning curves: {plot_curves(curves, folder / 'curves.png')}", soft_wrap=True)
