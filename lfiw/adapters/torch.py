"""LFIW for agents written in torch: the twin of the part of `lfiw.replay.lfiw` that turns the
ratio network's logits into weights.

    lfiw = Lfiw(obs_dim, action_dim, buffer_size=buffer_size)
    lfiw.observe(obs, action)                    # every new transition
    weights = lfiw.weights(batch_obs, batch_action)  # every update; trains the ratio network
    critic_loss = (weights * td_error**2).mean()
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lfiw.adapters.versions import require
from lfiw.errors import InputError
from lfiw.replay.lfiw import LfiwConfig
from lfiw.settings import check_ranges, conformed

require("lfiw.torch", "torch")

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from lfiw.adapters.torch_ratio import (  # noqa: E402
    Ratio,
    effective_sample_size,
    log_ratios,
    ratio_weights,
    with_floor,
)


class Weighing(NamedTuple):
    raw_weights: Tensor
    weights: Tensor
    trust: Tensor


class Trace(NamedTuple):
    """Of one update."""

    slow_logits: Tensor
    fast_logits: Tensor
    weighing: Weighing | None  # None where the ratio is a priority


class Lfiw:
    """Weights for the critic's loss, from a network that tells new transitions from the replay.

    `observe` takes every new transition; the newest `config.fast_size` of them are the fast
    memory. `weights` takes the batch that the critic is about to learn from, trains the network
    once on it and as many fast transitions, and returns weights of mean one, all one before
    the warm-up is over. All randomness is drawn from a generator of its own.

    Args:
        obs_dim: Numbers in an observation.
        action_dim: Numbers in an action.
        config: An `lfiw.LfiwConfig`; the default one if it is left out.
        buffer_size: Transitions that the agent's replay memory can hold.
        learning_rate: The critic's; `config.learning_rate` goes before.
        seed: Of the generator.
        device: Where the network and the fast memory are.
    """

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        config: LfiwConfig | None = None,
        *,
        buffer_size: int,
        learning_rate: float = 3e-4,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config = config = check_config(config, buffer_size)
        self.obs_dim, self.action_dim, self.buffer_size = obs_dim, action_dim, buffer_size
        self.device = torch.device(device)
        self.generator = torch.Generator().manual_seed(seed)
        rate = learning_rate if config.learning_rate is None else config.learning_rate
        self.ratio = Ratio(config, obs_dim + action_dim, rate, self.generator, self.device)
        self.env_steps = 0
        self.fast: Tensor | None = None  # [fast_size, D + A]
        self.trace: Trace | None = None

    @property
    def learning_rate(self) -> float:
        """Of the ratio network. Set it to the critic's where that follows a schedule: a rate in
        the config goes before."""
        rate: float = self.ratio.optimiser.param_groups[0]["lr"]
        return rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        if self.config.learning_rate is None:
            self.ratio.optimiser.param_groups[0]["lr"] = rate

    def observe(self, obs: Any, action: Any) -> None:
        """One transition, or several in order along the first axis."""
        rows = self.rows(obs, action)
        if self.fast is None:
            self.fast = torch.zeros(self.config.fast_size, rows.shape[1], device=self.device)
        self.env_steps += len(rows)
        rows = rows[-len(self.fast) :]
        slots = torch.arange(self.env_steps - len(rows), self.env_steps) % len(self.fast)
        self.fast[slots.to(self.device)] = rows

    def weights(self, obs: Any, action: Any, stored: int | None = None) -> Tensor:
        """Weights [B] of the critic's batch; one step of the ratio network. `stored`: how many
        transitions the replay memory holds, if not the newest that fit."""
        if self.fast is None:
            raise InputError("weights() needs transitions: call observe() with each new one first.")
        slow = self.rows(obs, action)
        filled = min(self.env_steps, len(self.fast))
        picks = torch.randint(filled, (len(slow),), generator=self.generator)
        if stored is None:
            stored = min(self.env_steps, self.buffer_size)
        return self.weigh(slow, self.fast[picks.to(self.device)], stored)

    def weigh(
        self, slow: Tensor, fast: Tensor, slow_size: int, drawn: Tensor | None = None
    ) -> Tensor:
        """The same for rows (s, a) of both memories, where the agent's own ring holds the fast
        one; then `env_steps` is the caller's to count. `drawn`: the critic's batch, where that is
        not the slow one."""
        config = self.config
        logits = None if drawn is None else self.ratio.logits(drawn)
        slow_logits, fast_logits = self.ratio.update(slow, fast)
        weighed = slow_logits if logits is None else logits
        raw = ratio_weights(weighed, config.temperature, config.transform, self._bound(slow_size))
        if self._is_cold():
            raw = torch.ones_like(raw)
        weights, trust = with_floor(raw, config.min_effective_sample_size)
        self.trace = Trace(slow_logits, fast_logits, Weighing(raw, weights, trust))
        return weights

    def ratios(self, slow: Tensor, fast: Tensor, slow_size: int, drawn: Tensor) -> Tensor:
        """In place of weights, where the ratio is a priority: one for a logit of zero."""
        config = self.config
        logits = self.ratio.logits(drawn)
        slow_logits, fast_logits = self.ratio.update(slow, fast)
        self.trace = Trace(slow_logits, fast_logits, None)
        if self._is_cold():
            return torch.ones_like(logits)
        form = (config.temperature, config.transform, self._bound(slow_size))
        return torch.exp(log_ratios(logits, *form) - log_ratios(torch.zeros_like(logits), *form))

    def _bound(self, slow_size: int) -> float | None:
        fast_size = self.config.fast_size
        return slow_size / min(slow_size, fast_size) if self.config.clip_ratio else None

    def _is_cold(self) -> bool:
        return self.env_steps < self.config.warmup_env_steps

    def rows(self, obs: Any, action: Any) -> Tensor:
        """(s, a) as [n, D + A]; a single transition is one row."""
        parts = []
        for what, size, value in (("obs", self.obs_dim, obs), ("action", self.action_dim, action)):
            part = torch.as_tensor(value, dtype=torch.float32, device=self.device)
            if size == 0 or part.numel() % size:
                raise InputError(f"{what} has shape {tuple(part.shape)}, not [..., {size}].")
            parts.append(part.reshape(-1, size))
        if len(parts[0]) != len(parts[1]):
            raise InputError(f"{len(parts[0])} observations do not fit {len(parts[1])} actions.")
        return torch.cat(parts, dim=1).detach()

    def metrics(self) -> dict[str, float]:
        """Of the last update; empty before the first."""
        if self.trace is None:
            return {}
        slow_logits, fast_logits, weighing = self.trace
        accuracy = ((slow_logits < 0).float().mean() + (fast_logits > 0).float().mean()) / 2
        of_ratio = {
            "classifier_loss": self.ratio.bound(slow_logits, fast_logits).item(),
            "balanced_accuracy": accuracy.item(),
        }
        if weighing is None:
            return of_ratio
        raw, weights, trust = weighing
        return of_ratio | {
            "effective_sample_size": effective_sample_size(weights),
            "raw_effective_sample_size": effective_sample_size(raw),
            "trust": trust.item(),
            "max_weight": weights.max().item(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Plain tensors and numbers, which `torch.load(weights_only=True)` reads."""
        return {
            "network": self.ratio.network.state_dict(),
            "optimiser": self.ratio.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "env_steps": self.env_steps,
            "fast": self.fast,
        }

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> None:
        """The inverse of `state_dict`."""
        self.ratio.network.load_state_dict(state["network"], strict=strict)
        self.ratio.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"].cpu())
        self.env_steps = state["env_steps"]
        fast = state["fast"]
        self.fast = None if fast is None else fast.to(self.device, copy=True)


NOT_FOLLOWED = ("weight_policy", "over", "use")


def as_config(config: LfiwConfig | None) -> LfiwConfig:
    """The default where none is given."""
    if config is None:
        return LfiwConfig()
    if not isinstance(config, LfiwConfig):
        raise InputError(f"The settings of LFIW are an lfiw.LfiwConfig(...), not {config!r}.")
    checked: LfiwConfig = conformed(config)
    return checked


def check_config(config: LfiwConfig | None, buffer_size: int) -> LfiwConfig:
    """The settings that weights outside our own trainer can follow."""
    config = as_config(config)
    check_ranges(config)
    if config.fast_size >= buffer_size:
        raise InputError(
            f"fast_size {config.fast_size} must be below the replay memory's size {buffer_size}."
        )
    for name in NOT_FOLLOWED:
        if getattr(config, name) != getattr(LfiwConfig(), name):
            raise InputError(
                f"Only the critic's uniformly drawn batch is weighted here: leave {name} at its "
                f"default, or train with lfiw itself."
            )
    return config
