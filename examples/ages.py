"""Which ages each replay strategy draws: docs/images/ages.png, and a table.

    python examples/ages.py --out ages.png

The memory is full, all TD errors are alike and training is halfway. Add a strategy of your own to
the registry and it is drawn too.
"""

from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import tyro

from lfiw.replay import REPLAYS, make_replay
from lfiw.replay.base import ReplayContext
from lfiw.replay.ring import slot_age
from lfiw.results.catalogue import looks, strategy_title
from lfiw.types import Clock, EnvSpec

matplotlib.use("agg")
from matplotlib import pyplot as plt


@dataclass
class Args:
    size: int = 1_000_000  # transitions in the memory
    batch_size: int = 256
    batches: int = 4000
    newest: int = 10_000  # the table has the share of a batch that is newer
    out: Path = Path("ages.png")


def drawn_ages(name: str, args: Args) -> np.ndarray:
    """Ages [batches, batch_size] of what a strategy draws in successive updates."""
    spec = EnvSpec(obs_size=1, action_size=1)
    context = ReplayContext(spec, args.size, args.size, args.batch_size, agent_learning_rate=3e-4)
    replay = make_replay(REPLAYS[name](), context)
    rows = jnp.zeros((args.size, spec.row_size))
    state = jax.jit(replay.add)(replay.init(jax.random.key(0)), rows)

    def update(state: object, number: jax.Array) -> tuple[object, jax.Array]:
        clock = Clock(jnp.int32(args.size // 2), number, progress=0.5)
        noise = replay.draw(jax.random.fold_in(jax.random.key(1), number))
        state, sample, _ = replay.sample(state, noise, clock)
        return state, slot_age(replay.ring(state), sample.slots)

    _, ages = jax.jit(lambda state: jax.lax.scan(update, state, jnp.arange(args.batches)))(state)
    return np.asarray(ages)


def main(args: Args) -> None:
    # These draw as another does while TD errors are alike; LFIW weights what it draws.
    names = [name for name in REPLAYS if name not in ("per", "lap", "pal", "lfiw")]
    edges = np.unique(np.geomspace(1, args.size, 200).astype(int))
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    print(f"share of a batch from the newest {args.newest:,} of {args.size:,} transitions")
    for name, look in ((name, looks(names)[name]) for name in names):
        ages = np.sort(drawn_ages(name, args).ravel())
        share = np.searchsorted(ages, edges) / ages.size
        axes.plot(edges, 100 * share, look.style, color=look.colour, label=strategy_title(name))
        print(f"  {name:12} {100 * np.mean(ages < args.newest):5.1f} %")
    axes.set(xscale="log", xlabel="newest transitions", ylabel="share of a batch, %")
    axes.set_xlim(1, args.size)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(args.out, dpi=110)


if __name__ == "__main__":
    main(tyro.cli(Args))
