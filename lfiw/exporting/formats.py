"""A trained policy as one file for other programs, checked against the numpy policy."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lfiw.acting.policy import Policy
from lfiw.errors import InputError, RunError
from lfiw.exporting import numpy_file, onnx_file, torch_file
from lfiw.exporting.steps import Actions, Steps, steps_of
from lfiw.extras import install_command
from lfiw.runs.files import make_parent, write_whole
from lfiw.runs.layout import folder_of
from lfiw.runs.policies import Which, load_policy
from lfiw.settings import conform, pick

TESTED_ROWS = 64
TOLERANCE = 1e-4  # of the range of actions


class Format(NamedTuple):
    suffix: str
    encode: Callable[[Steps], bytes]
    decode: Callable[[bytes], Actions]
    extra: str = ""  # of this package, whose libraries it needs


FORMATS = {
    "numpy": Format(".npz", numpy_file.encode, numpy_file.decode),
    "onnx": Format(".onnx", onnx_file.encode, onnx_file.decode, "onnx"),
    "torch": Format(".pt2", torch_file.encode, torch_file.decode, "torch"),
}


def export(
    folder: str | PathLike[str],
    to: str,
    out: str | PathLike[str] | None = None,
    seed: int = 0,
    which: Which = "latest",
) -> Path:
    """The deterministic policy of one seed as one file, which needs nothing of lfiw.

    It maps raw observations [B, D] to actions [B, A] in the units of the environment, and is
    written only if it acts as the numpy policy does.

    Args:
        folder: A method folder, or what `lfiw.train` returned.
        to: `"numpy"` (an .npz of plain arrays), `"onnx"` or `"torch"` (a .pt2 of torch.export).
        out: The file; by default `policy` with the format's suffix.
        seed: The training seed whose policy it is.
        which: `"latest"`, or `"best"` for the policy that was evaluated best in training.

    >>> lfiw.export(training, "onnx", "policy.onnx")
    """
    pick(to, FORMATS, "format")
    made = FORMATS[to]
    policy = load_policy(folder_of(folder), conform("seed", seed, int), which)
    path = Path(f"policy{made.suffix}" if out is None else out)
    if path.suffix != made.suffix:
        raise InputError(f"{path}: the name of a file for {to} must end in {made.suffix}.")
    try:
        content = made.encode(steps_of(policy))
        check_actions(policy, made.decode(content), to)
    except ImportError as error:
        raise InputError(
            f"Exporting to {to} needs {error.name or to}: {install_command(made.extra)}"
        ) from None
    make_parent(path)
    try:
        write_whole(path, content)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
    return path


def check_actions(policy: Policy, act: Actions, to: str) -> None:
    """On random observations, some of them far out."""
    scale = policy.arrays.get("observation.std", np.ones(1, np.float32))
    center = policy.arrays.get("observation.mean", np.zeros(1, np.float32))
    rng = np.random.default_rng(0)
    shape = (TESTED_ROWS, policy.unscaled.obs_size)
    spread = np.geomspace(0.1, 20, TESTED_ROWS)[:, None]
    obs = (center + scale * spread * rng.standard_normal(shape)).astype(np.float32)
    expected, _ = policy.predict(obs)
    width = policy.scale.high - policy.scale.low
    error = np.max(np.abs(act(obs) - expected) / width)
    if not error <= TOLERANCE:
        raise RunError(
            f"The policy exported to {to} acts differently (by {error:.2g} of the actions' range), "
            "so nothing was written."
        )
