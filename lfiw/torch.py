"""The ratio estimator for agents written in torch, under its short name."""

from lfiw.adapters.torch import Lfiw
from lfiw.adapters.torch_ratio import Ratio, ratio_weights, with_floor

__all__ = ["Lfiw", "Ratio", "ratio_weights", "with_floor"]
