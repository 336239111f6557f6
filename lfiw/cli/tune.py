"""`lfiw tune`: search for good settings; the options are the fields."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from lfiw.cli.options import (
    AgentName,
    Assignments,
    OnMachine,
    ReplayName,
    apply_settings,
    unset,
)
from lfiw.errors import InputError
from lfiw.extras import install_command

if TYPE_CHECKING:
    from lfiw.learning.config import TrainConfig

Searches = Annotated[
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME[=RANGE]")
]


@dataclass
class Tune(OnMachine):
    """Search for good settings of one method: the same command goes on with a study."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A Gymnasium id or an importable function `module:function`."""
    agent: AgentName = "sac"
    replay: ReplayName = "lfiw"
    trials: int = 50
    """Trials that are trained to their end or ended early; failed ones do not count."""
    num_seeds: int = 3
    """Train this many seeds in each trial, counted from 0."""
    env_steps: Annotated[str, tyro.conf.arg(metavar="INT")] = "300000"
    """Environment steps of each run."""
    out: Annotated[Path | None, unset("PATH", "runs/tune/ENV/AGENT-REPLAY")] = None
    """The folder of the study."""
    set: Assignments = ()
    """Settings of all trials, such as batch_size=128; `lfiw settings` lists them."""
    search: Searches = ()
    """What to search: NAME=LOW:HIGH, NAME=VALUE,VALUE... or NAME; without it, the floats of agent
    and strategy."""
    objective: str = "final"
    """What is made large: final (the last evaluations) or area (under the curve)."""
    seed: int = 0
    """Of the search, not of the runs."""

    def run(self, console: Console) -> None:
        try:
            import optuna  # noqa: F401
        except ModuleNotFoundError:
            raise InputError(f"lfiw tune needs Optuna: {install_command('tune')}") from None
        from lfiw.runs.layout import method_folder
        from lfiw.tuning.outcome import Plan, best_table, counts, train_command
        from lfiw.tuning.space import make_space
        from lfiw.tuning.study import Place, tune

        config = self.config()
        fixed = [assignment.partition("=")[0].strip() for assignment in self.set]
        plan = Plan(config, make_space(config, self.search, fixed), self.objective, self.seed)
        out = self.out or method_folder(Path("runs") / "tune", config.env.id, config.method)
        messages = Console(quiet=self.quiet, stderr=True, markup=False)
        study = tune(plan, self.trials, Place(out, self.workers, self.devices, messages))
        console.print(best_table(study, plan))
        console.print(counts(study), highlight=False)
        console.print(train_command(plan, out), soft_wrap=True, highlight=False)

    def config(self) -> TrainConfig:
        """Of all trials, before anything is searched."""
        from lfiw.learning.config import make_config
        from lfiw.settings import override

        if self.num_seeds < 1:
            raise InputError(f"--num-seeds must be at least 1, not {self.num_seeds}.")
        config = make_config(self.env, self.agent, self.replay, seeds=range(self.num_seeds))
        config = override(config, "env_steps", self.env_steps)
        return apply_settings([config], self.set)[0]
