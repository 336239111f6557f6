"""A policy as an ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lfiw.acting.networks import RMS_EPSILON
from lfiw.acting.policy import OBS_CLIP
from lfiw.exporting.steps import Actions, Linear, Step, Steps


class OnnxGraph:
    """Nodes one after the other; `latest` is the name of what the last one yields."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.latest = "observation"

    def constant(self, array: Any) -> str:
        from onnx import numpy_helper

        name = f"array_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def apply(self, operation: str, *operands: Any, **attributes: Any) -> None:
        """Operands after the first, which is the latest: arrays, or the names of others."""
        from onnx import helper

        names = [one if isinstance(one, str) else self.constant(one) for one in operands]
        made = f"value_{len(self.nodes)}"
        inputs = [self.latest, *names]
        self.nodes.append(helper.make_node(operation, inputs, [made], **attributes))
        self.latest = made

    def apply_steps(self, steps: Sequence[Step]) -> None:
        kept = self.latest
        for step in steps:
            if isinstance(step, Linear):
                self.apply("MatMul", step.weight)
                self.apply("Add", step.bias)
            elif step == "relu":
                self.apply("Relu")
            elif step == "keep":
                kept = self.latest
            elif step == "add":
                self.apply("Add", kept)
            elif step == "rms":
                before = self.latest
                self.apply("Mul", before)
                self.apply("ReduceMean", axes=[-1], keepdims=1)
                self.apply("Add", [RMS_EPSILON])
                self.apply("Sqrt")
                size, self.latest = self.latest, before
                self.apply("Div", size)


def encode(policy: Steps) -> bytes:
    from onnx import TensorProto, checker, helper

    made = OnnxGraph()
    if policy.statistics is not None:
        mean, std = policy.statistics
        made.apply("Sub", mean)
        made.apply("Div", std)
        made.apply("Clip", -OBS_CLIP, OBS_CLIP)
    made.apply_steps(policy.steps)
    made.apply("Tanh")
    made.apply("Add", [1])
    made.apply("Mul", (policy.high - policy.low) / 2)
    made.apply("Add", policy.low)
    made.apply("Max", policy.low)
    made.apply("Min", policy.high)
    nodes = [*made.nodes, helper.make_node("Identity", [made.latest], ["action"])]

    def rows(name: str, size: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])

    graph = helper.make_graph(
        nodes,
        "policy",
        [rows("observation", policy.input_size)],
        [rows("action", len(policy.low))],
        made.constants,
    )
    # Old enough for the runtimes of the last years.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def decode(content: bytes) -> Actions:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def act(obs: np.ndarray) -> np.ndarray:
        actions: np.ndarray = session.run(["action"], {"observation": obs})[0]
        return actions

    return act
