"""A policy as a folder that model hubs show well: the layout of Hugging Face's models of
reinforcement learning. Pushing it is the user's own command."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from lfiw.errors import InputError
from lfiw.exporting.formats import export
from lfiw.results.method import Method
from lfiw.results.methods import read_methods
from lfiw.results.plot import plot_curves
from lfiw.runs.evaluate import evaluate
from lfiw.runs.files import make_parent, save_arrays, write_json
from lfiw.runs.layout import SHARED_POLICY, SHARED_RESULTS, folder_of, policy_file
from lfiw.runs.policies import Which, load_policy
from lfiw.runs.record import record
from lfiw.wording import one_line

KEPT = ("config", "versions", "commit")  # of a method's record; not where it was trained


def export_hub_folder(
    folder: str | PathLike[str],
    out: str | PathLike[str] | None = None,
    seed: int = 0,
    which: Which = "latest",
    episodes: int = 10,
    trust_env: bool = False,
    note: Callable[[str], None] = lambda sentence: None,
) -> Path:
    """A new folder with the policy of one seed, its card, curves and evaluation, and a video where
    one can be recorded; `note` is told where not."""
    source = folder_of(folder)
    (method,) = read_methods([source])
    target = Path(f"{method.task}-{method.name}" if out is None else out)
    if target.exists():
        raise InputError(f"{target} exists already; name another folder with --out.")
    policy = load_policy(source, seed, which)
    (row,) = evaluate(source, episodes, seed, which=which, trust_env=trust_env)
    make_parent(target)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as scratch:
        made = Path(scratch, target.name)
        made.mkdir()
        save_arrays(policy_file(made, seed), policy.arrays)
        export(source, "numpy", made / SHARED_POLICY, seed, which)
        write_json(made / "config.json", {name: method.record.get(name) for name in KEPT})
        results = {
            "mean_reward": row["return_mean"],
            "std_reward": row["return_std"],
            "is_deterministic": True,
            "n_eval_episodes": row["episodes"],
            "eval_datetime": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_json(made / SHARED_RESULTS, results)
        plot_curves([method.curves], made / "curves.png")
        try:
            record(source, made / "replay.mp4", seed, which=which, trust_env=trust_env)
        except InputError as error:
            note(f"No video: {error}")
        has_video = (made / "replay.mp4").is_file()
        (made / "README.md").write_text(card(method, seed, which, results, has_video))
        shutil.move(made, target)
    return target


def card(method: Method, seed: int, which: Which, results: dict[str, Any], has_video: bool) -> str:
    """The page of the model, headed by what a hub reads."""
    reward = f"{results['mean_reward']:.2f} +/- {results['std_reward']:.2f}"
    task, curves = one_line(method.task), method.curves
    steps = int(curves.env_steps[-1])
    final = ", ".join(f"{value:,.0f}" for value in curves.final())
    head = {
        "library_name": "lfiw",
        "tags": [task, "deep-reinforcement-learning", "reinforcement-learning", "lfiw"],
        "model-index": [
            {
                "name": method.title,
                "results": [
                    {
                        "task": {
                            "type": "reinforcement-learning",
                            "name": "reinforcement-learning",
                        },
                        "dataset": {"name": task, "type": task},
                        "metrics": [
                            {"type": "mean_reward", "name": "mean_reward", "value": reward}
                        ],
                    }
                ],
            }
        ],
    }
    # JSON is YAML too, and quotes whatever a name holds.
    lines = [f"{name}: {json.dumps(value)}" for name, value in head.items()]
    video = "\n`replay.mp4` shows one deterministic episode.\n" if has_video else ""
    return (
        "\n".join(["---", *lines, "---", ""])
        + f"""
# {method.title} on {task}

The {which} policy of seed {seed}, trained with `lfiw` for {steps:,} environment steps.
Return over {results["n_eval_episodes"]} deterministic episodes: **{reward}**.
{video}
![Learning curves](curves.png)

*Mean over {len(curves.seeds)} seed(s). Final returns of all seeds: {final}. A policy that was
chosen among seeds, or as the best of its evaluations, does better here than the method on average.*

## Use

In this folder, with `lfiw`, numpy and safetensors:

```python
import lfiw

policy = lfiw.load_policy(".", seed={seed})
action, _ = policy.predict(observation)  # one observation or a batch of them
```

`{SHARED_POLICY}` has the same policy as plain arrays, `config.json` the settings of its training.
"""
    )
