"""The density ratio of two sets of samples, estimated by a network; usable on its own."""

from lfiw.ratio.divergences import DIVERGENCES
from lfiw.ratio.network import (
    Ratio,
    RatioConfig,
    RatioState,
    effective_sample_size,
    log_ratios,
    make_ratio,
    ratio_weights,
    trust_above,
    with_floor,
)

__all__ = [
    "DIVERGENCES",
    "Ratio",
    "RatioConfig",
    "RatioState",
    "effective_sample_size",
    "log_ratios",
    "make_ratio",
    "ratio_weights",
    "trust_above",
    "with_floor",
]
