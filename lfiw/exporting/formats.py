"""A trained policy as one file for other programs, checked against the numpy policy."""

from __future__ import annotations

import io
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lfiw.acting.policy import OBS_CLIP, Policy
from lfiw.errors import InputError, RunError
from lfiw.extras import install_command
from lfiw.runs.files import make_parent, write_whole
from lfiw.runs.layout import folder_of
from lfiw.runs.policies import Which, load_policy
from lfiw.settings import conform, pick

TESTED_ROWS = 64
TOLERANCE = 1e-4  # of the range of actions


class Layers(NamedTuple):
    """A deterministic policy as plain arrays: observations are normalised and clipped where they
    have statistics, pass through the layers with ReLU between them, and tanh of the outputs is
    stretched to the bounds of the actions."""

    statistics: tuple[np.ndarray, np.ndarray] | None  # mean and standard deviation [D]
    weights: list[np.ndarray]  # [in, out]
    biases: list[np.ndarray]  # [out]
    low: np.ndarray  # [A]
    high: np.ndarray  # [A]


Actions = Callable[[np.ndarray], np.ndarray]  # observations [B, D] -> actions [B, A]


class Format(NamedTuple):
    suffix: str
    encode: Callable[[Layers], bytes]
    decode: Callable[[bytes], Actions]
    extra: str = ""  # of this package, whose libraries it needs


def layers_of(policy: Policy) -> Layers:
    arrays, kind, num_actions = policy.arrays, policy.unscaled.kind, policy.unscaled.action_size
    count = sum(name.startswith(f"{kind}.") and name.endswith(".weight") for name in arrays)
    names = [f"{kind}.{index}" for index in range(count)]
    if f"{kind}.0.weight" not in arrays:
        raise InputError("Only policies whose network is an MLP can be exported.")
    weights = [arrays[f"{name}.weight"] for name in names]
    biases = [arrays[f"{name}.bias"] for name in names]
    # Of a Gaussian the means are enough.
    weights[-1], biases[-1] = weights[-1][:, :num_actions], biases[-1][:num_actions]
    mean, std = (arrays.get(f"observation.{name}") for name in ("mean", "std"))
    statistics = None if mean is None or std is None else (mean, std)
    return Layers(statistics, weights, biases, arrays["action_low"], arrays["action_high"])


def encode_numpy(layers: Layers) -> bytes:
    arrays = {"action_low": layers.low, "action_high": layers.high}
    if layers.statistics is not None:
        arrays |= zip(("observation_mean", "observation_std"), layers.statistics, strict=True)
    for index, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        arrays |= {f"weight_{index}": weight, f"bias_{index}": bias}
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]  # numpy's stub has its own options in mind
    return file.getvalue()


def decode_numpy(content: bytes) -> Actions:
    """The lines of docs/guides/deploy.md, with no function of ours."""
    file = np.load(io.BytesIO(content), allow_pickle=False)

    def act(obs: np.ndarray) -> np.ndarray:
        x = obs
        if "observation_mean" in file:
            x = (x - file["observation_mean"]) / file["observation_std"]
            x = np.clip(x, -OBS_CLIP, OBS_CLIP)
        last = sum(name.startswith("weight_") for name in file) - 1
        for index in range(last):
            x = np.maximum(x @ file[f"weight_{index}"] + file[f"bias_{index}"], 0)
        x = np.tanh(x @ file[f"weight_{last}"] + file[f"bias_{last}"])
        low, high = file["action_low"], file["action_high"]
        actions: np.ndarray = np.clip(low + (x + 1) * (high - low) / 2, low, high)
        return actions

    return act


def encode_onnx(layers: Layers) -> bytes:
    from onnx import TensorProto, checker, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []
    latest = "observation"

    def apply(operation: str, *operands: np.ndarray) -> None:
        nonlocal latest
        names = [f"array_{len(constants) + index}" for index in range(len(operands))]
        constants.extend(
            numpy_helper.from_array(np.asarray(operand, np.float32), name)
            for operand, name in zip(operands, names, strict=True)
        )
        nodes.append(helper.make_node(operation, [latest, *names], [f"value_{len(nodes)}"]))
        latest = f"value_{len(nodes) - 1}"

    if layers.statistics is not None:
        mean, std = layers.statistics
        apply("Sub", mean)
        apply("Div", std)
        apply("Clip", np.array(-OBS_CLIP), np.array(OBS_CLIP))
    for index, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        apply("MatMul", weight)
        apply("Add", bias)
        apply("Relu" if index < len(layers.weights) - 1 else "Tanh")
    apply("Add", np.ones(1))
    apply("Mul", (layers.high - layers.low) / 2)
    apply("Add", layers.low)
    apply("Max", layers.low)
    apply("Min", layers.high)
    nodes.append(helper.make_node("Identity", [latest], ["action"]))

    def rows(name: str, size: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])

    graph = helper.make_graph(
        nodes,
        "policy",
        [rows("observation", layers.weights[0].shape[0])],
        [rows("action", len(layers.low))],
        constants,
    )
    # Old enough for the runtimes of the last years.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def decode_onnx(content: bytes) -> Actions:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def act(obs: np.ndarray) -> np.ndarray:
        actions: np.ndarray = session.run(["action"], {"observation": obs})[0]
        return actions

    return act


def encode_torch(layers: Layers) -> bytes:
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.statistics = layers.statistics is not None
            mean, std = layers.statistics or (np.zeros(1), np.ones(1))
            named = {"mean": mean, "std": std, "low": layers.low, "high": layers.high}
            for name, array in named.items():
                self.register_buffer(name, torch.tensor(np.asarray(array, np.float32)))
            self.layers = torch.nn.ModuleList(
                torch.nn.Linear(*weight.shape) for weight in layers.weights
            )
            for layer, weight, bias in zip(self.layers, layers.weights, layers.biases, strict=True):
                layer.weight.data = torch.tensor(weight.T.copy())
                layer.bias.data = torch.tensor(bias)

        def forward(self, observation: Any) -> Any:
            x = observation
            if self.statistics:
                x = ((x - self.mean) / self.std).clamp(-OBS_CLIP, OBS_CLIP)
            for layer in self.layers[:-1]:
                x = torch.relu(layer(x))
            x = torch.tanh(self.layers[-1](x))
            return (self.low + (x + 1) * (self.high - self.low) / 2).clamp(self.low, self.high)

    example = torch.zeros(2, layers.weights[0].shape[0])
    shapes = {"observation": {0: torch.export.Dim("batch")}}
    program = torch.export.export(Network().eval(), (example,), dynamic_shapes=shapes)
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def decode_torch(content: bytes) -> Actions:
    import torch

    module = torch.export.load(io.BytesIO(content)).module()

    def act(obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            actions: np.ndarray = module(torch.from_numpy(obs)).numpy()
        return actions

    return act


FORMATS = {
    "numpy": Format(".npz", encode_numpy, decode_numpy),
    "onnx": Format(".onnx", encode_onnx, decode_onnx, "onnx"),
    "torch": Format(".pt2", encode_torch, decode_torch, "torch"),
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
        content = made.encode(layers_of(policy))
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
