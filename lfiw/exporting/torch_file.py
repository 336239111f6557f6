"""A policy as a program of torch.export."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from lfiw.acting.networks import RMS_EPSILON
from lfiw.acting.policy import OBS_CLIP
from lfiw.exporting.steps import Actions, Linear, Steps


def encode(policy: Steps) -> bytes:
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.statistics = policy.statistics is not None
            mean, std = policy.statistics or (np.zeros(1), np.ones(1))
            named = {"mean": mean, "std": std, "low": policy.low, "high": policy.high}
            for name, array in named.items():
                self.register_buffer(name, torch.tensor(np.asarray(array, np.float32)))
            self.layers = torch.nn.ModuleList(
                torch.nn.Linear(*layer.weight.shape) for layer in policy.layers
            )
            for layer, (weight, bias) in zip(self.layers, policy.layers, strict=True):
                layer.weight.data = torch.tensor(weight.T.copy())
                layer.bias.data = torch.tensor(bias)

        def forward(self, observation: Any) -> Any:
            x = kept = observation
            if self.statistics:
                x = ((x - self.mean) / self.std).clamp(-OBS_CLIP, OBS_CLIP)
            layers = iter(self.layers)
            for step in policy.steps:
                if isinstance(step, Linear):
                    x = next(layers)(x)
                elif step == "relu":
                    x = torch.relu(x)
                elif step == "keep":
                    kept = x
                elif step == "add":
                    x = x + kept
                elif step == "rms":
                    x = x / (x.square().mean(-1, keepdim=True) + RMS_EPSILON).sqrt()
            x = torch.tanh(x)
            return (self.low + (x + 1) * (self.high - self.low) / 2).clamp(self.low, self.high)

    example = torch.zeros(2, policy.input_size)
    shapes = {"observation": {0: torch.export.Dim("batch")}}
    program = torch.export.export(Network().eval(), (example,), dynamic_shapes=shapes)
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def decode(content: bytes) -> Actions:
    import torch

    module = torch.export.load(io.BytesIO(content)).module()

    def act(obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            actions: np.ndarray = module(torch.from_numpy(obs)).numpy()
        return actions

    return act
