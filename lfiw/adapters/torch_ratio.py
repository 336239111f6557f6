"""The ratio network and what is made of its logits, in torch: the twin of `lfiw.ratio`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from lfiw.adapters.versions import require
from lfiw.ratio import RatioConfig
from lfiw.ratio.divergences import LOGIT_LIMIT
from lfiw.ratio.network import FINITE_LOGIT, LAST_LAYER_LIMIT

require("lfiw.torch", "torch")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402


class Divergence(NamedTuple):
    on_slow: Callable[[Tensor], Tensor]
    on_fast: Callable[[Tensor], Tensor]


def bounded(logits: Tensor) -> Tensor:
    """Values within the limit, with the gradient of the identity."""
    return logits + (logits.clamp(-LOGIT_LIMIT, LOGIT_LIMIT) - logits).detach()


# The functions of `lfiw.divergences`, which says where they come from.
DIVERGENCES: dict[str, Divergence] = {
    "jensen-shannon": Divergence(
        on_slow=lambda z: functional.softplus(z) - math.log(2),
        on_fast=lambda z: functional.softplus(-z) - math.log(2),
    ),
    "kl": Divergence(
        on_slow=lambda z: torch.exp(bounded(z)),
        on_fast=lambda z: -1 - z,
    ),
    "pearson": Divergence(
        on_slow=lambda z: torch.exp(2 * bounded(z)) - 1,
        on_fast=lambda z: 2 - 2 * torch.exp(bounded(z)),
    ),
    "hellinger": Divergence(
        on_slow=lambda z: torch.exp(0.5 * bounded(z)) - 1,
        on_fast=lambda z: torch.exp(-0.5 * bounded(z)) - 1,
    ),
}


LOG_TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "power": lambda scaled: scaled,
    "sigmoid": functional.logsigmoid,
}


def ratio_weights(
    logits: Tensor, temperature: float, transform: str, max_ratio: float | None = None
) -> Tensor:
    """Self-normalised weights of a batch, Eq. 9: finite, >= 0, mean one, without gradient."""
    log_weights = log_ratios(logits, temperature, transform, max_ratio)
    unscaled = torch.exp(log_weights - log_weights.max())
    total = unscaled.sum()
    # Exactly one where all are equal; a number divided by a tensor would be its rounded inverse.
    return unscaled * (torch.full_like(total, len(logits)) / total)


def log_ratios(
    logits: Tensor, temperature: float, transform: str, max_ratio: float | None = None
) -> Tensor:
    """The logarithms of weights before normalisation: finite, without gradient."""
    logits = logits.detach().clamp(-FINITE_LOGIT, FINITE_LOGIT)
    if max_ratio is not None:
        logits = logits.clamp(max=math.log(max_ratio))
    return LOG_TRANSFORMS[transform](logits / temperature)


def with_floor(weights: Tensor, floor: float) -> tuple[Tensor, Tensor]:
    """Weights of mean one, mixed with uniform ones just enough that their effective sample size
    is at least `floor`, and the share of the given ones in them."""
    trust = trust_above(floor, (weights - 1).square().mean())
    return (1 - trust) + trust * weights, trust


def trust_above(floor: float, spread: Tensor) -> Tensor:
    """The largest share of weights of this spread that a mixture above the floor can have."""
    holds = floor * spread <= 1 - floor
    return torch.where(holds, 1.0, torch.sqrt((1 - floor) / (floor * spread)))


def effective_sample_size(weights: Tensor) -> float:
    return (weights.mean() ** 2 / (weights**2).mean()).item()


def make_mlp(sizes: Sequence[int], last_limit: float, generator: torch.Generator) -> nn.Sequential:
    """ReLU between layers; drawn from `generator` alone, so that the agent's draws stay."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layer = nn.utils.skip_init(nn.Linear, fan_in, fan_out)
        limit = last_limit if len(layers) == 2 * len(sizes) - 4 else 1 / math.sqrt(fan_in)
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -limit, limit, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Ratio:
    """The ratio network and its optimiser."""

    def __init__(
        self,
        config: RatioConfig,
        input_size: int,
        learning_rate: float,
        generator: torch.Generator,
        device: torch.device | str = "cpu",
    ) -> None:
        sizes = (input_size, *config.hidden_sizes, 1)
        self.divergence = config.divergence
        self.network = make_mlp(sizes, LAST_LAYER_LIMIT, generator).to(device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=learning_rate)

    def bound(self, slow_logits: Tensor, fast_logits: Tensor) -> Tensor:
        """Eq. 8."""
        divergence = DIVERGENCES[self.divergence]
        return divergence.on_slow(slow_logits).mean() + divergence.on_fast(fast_logits).mean()

    @torch.no_grad()
    def logits(self, rows: Tensor) -> Tensor:
        return self.network(rows)[:, 0]

    @torch.enable_grad()
    def update(self, slow: Tensor, fast: Tensor) -> tuple[Tensor, Tensor]:
        """One step on Eq. 8; the slow and the fast logits from before it."""
        logits = self.network(torch.cat([slow, fast]))[:, 0]
        slow_logits, fast_logits = logits[: len(slow)], logits[len(slow) :]
        self.optimiser.zero_grad()
        self.bound(slow_logits, fast_logits).backward()
        self.optimiser.step()
        return slow_logits.detach(), fast_logits.detach()
