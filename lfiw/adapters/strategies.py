"""The replay strategies of `lfiw.replay` in torch, for agents whose transitions another library
stores: each the twin of the jax one, whose settings and name it has.

A strategy knows slots, not transitions. It hears which were written and draws by age or priority;
the library's own buffer hands out what is in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from lfiw.adapters.versions import require
from lfiw.errors import InputError
from lfiw.replay import REPLAYS
from lfiw.replay.inverse_age import STRIPS, TABLE, InverseAgeNoise
from lfiw.replay.lap import MIN_ERROR
from lfiw.replay.priorities import MAX_ERROR
from lfiw.replay.recency import BLOCK, MIN_DECAY, RecencyNoise
from lfiw.replay.sum_tree import LEVELS
from lfiw.settings import check_ranges, conformed
from lfiw.types import Clock, anneal

require("lfiw.adapters", "torch")

import torch  # noqa: E402
from torch import Generator, Tensor  # noqa: E402

from lfiw.adapters.sum_tree import SumTree  # noqa: E402

BITS = 2**32


class Order(NamedTuple):
    """The slots that can be drawn, by age: 0 is the newest. They are the newest `size` of a ring
    that is written next at `head`, unless they are listed."""

    capacity: int
    head: int
    size: int
    listed: Tensor | None = None  # [size] oldest first

    def slots(self, ages: Tensor) -> Tensor:
        if self.listed is not None:
            return self.listed[self.size - 1 - ages]
        return (self.head - 1 - ages) % self.capacity


class Draw(NamedTuple):
    slots: Tensor  # [B]
    weights: Tensor  # [B] multiply the critic's loss


def unit(slots: Tensor) -> Draw:
    return Draw(slots, torch.ones(len(slots)))


def bits(count: int, generator: Generator) -> Tensor:
    return torch.randint(BITS, (count,), generator=generator)


def uniforms(shape: Sequence[int], generator: Generator) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def recent_slots(noise: Tensor, order: Order, window: int) -> Tensor:
    return order.slots(noise % min(max(window, 1), order.size))


class Uniform:
    """And what the other strategies change in it.

    All randomness is in `noise`; `sample` is a function of state, noise, order and clock.
    """

    is_uniform: ClassVar[bool] = True  # the library draws such batches itself
    needs_errors: ClassVar[bool] = False
    has_huber_loss: ClassVar[bool] = False  # in place of the critics' squares

    def __init__(self, config: Any, capacity: int) -> None:
        self.config, self.capacity = config, capacity
        self.trace: dict[str, Any] = {}

    def add(self, slots: Tensor, updates: int) -> None:
        """Slots that now hold what is new and can be drawn; `updates` will follow."""

    def remove(self, slots: Tensor) -> None:
        """Slots that can no longer be drawn."""

    def noise(self, count: int, generator: Generator) -> Any:
        return bits(count, generator)

    def sample(self, noise: Any, order: Order, clock: Clock) -> Draw:
        return unit(recent_slots(noise, order, order.size))

    def feedback(self, slots: Tensor, td_errors: Tensor) -> None:
        """TD errors [critics, B] of what was drawn."""

    def emphasis(self, td_errors: Tensor) -> Tensor:
        """What multiplies each critic's losses [critics, B]."""
        return torch.ones_like(td_errors)

    def metrics(self) -> dict[str, float]:
        """Of the last sample."""
        return {name: float(value) for name, value in self.trace.items()}

    def state_dict(self) -> dict[str, Any]:
        """Plain tensors and numbers."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class Ere(Uniform):
    is_uniform = False

    def window(self, clock: Clock) -> float:
        """c_k = max(N eta^(1000 k / K), c_min) for update k = 1..K of the cycle."""
        config = self.config
        eta = anneal(config.eta, config.eta_end, clock)
        position = (clock.updates % config.cycle_updates + 1) / config.cycle_updates
        return max(self.capacity * float(eta) ** (1000 * float(position)), config.min_window)

    def sample(self, noise: Tensor, order: Order, clock: Clock) -> Draw:
        window = min(self.window(clock), order.size)
        self.trace = {"window": window}
        return unit(recent_slots(noise, order, int(window)))


def geometric(uniforms: Tensor, count: Tensor | int, decay: float) -> Tensor:
    """Real numbers x in [0, count] whose whole part k has P(k) ~ exp(-decay k)."""
    reach = torch.expm1(-decay * torch.as_tensor(count, dtype=uniforms.dtype))
    return -torch.log1p(uniforms * reach) / decay


def recent_ages(noise: RecencyNoise, size: int, rate: float, floor: float) -> Tensor:
    """Ages [B] in 0..size-1 with P(k) ~ max(floor, (1 - rate)^k)."""
    part, block, within, flat = (torch.as_tensor(values) for values in noise)
    decay = max(-math.log1p(-rate), MIN_DECAY)
    # Ages below `crossing` decay.
    crossing = size if floor == 0 else int(min(-math.log(floor) / decay + 1, size))
    decaying_mass = math.expm1(-decay * crossing) / math.expm1(-decay)
    flat_mass = floor * (size - crossing)

    # A geometric series is one again within each block, of which the last may be shorter.
    last = (crossing - 1) // BLOCK
    blocks = (geometric(block, crossing, decay) / BLOCK).long()
    start = blocks.clamp(max=last) * BLOCK
    length = (crossing - start).clamp(max=BLOCK)
    decaying = start + torch.minimum(geometric(within, length, decay).long(), length - 1)

    at_floor = (crossing + flat % max(size - crossing, 1)).clamp(max=size - 1)
    return torch.where(part * (decaying_mass + flat_mass) < decaying_mass, decaying, at_floor)


class Recency(Uniform):
    is_uniform = False

    def noise(self, count: int, generator: Generator) -> RecencyNoise:
        part, block, within = uniforms((3, count), generator)
        return RecencyNoise(part, block, within, bits(count, generator))

    def sample(self, noise: RecencyNoise, order: Order, clock: Clock) -> Draw:
        ages = recent_ages(noise, order.size, self.config.rate, self.config.floor)
        return unit(order.slots(ages))


def inverse_ages(noise: InverseAgeNoise, size: int, offset: float) -> Tensor:
    """Ages [B] in 0..size-1 with P(k) ~ 1 / (k + offset)."""
    part, age, within = (torch.as_tensor(values) for values in noise)
    running = (1 / (torch.arange(min(TABLE, size), dtype=part.dtype) + offset)).cumsum(0)
    first = TABLE + offset - 0.5  # where the closed form begins
    tail_mass = math.log(max((size + offset - 0.5) / first, 1.0))
    head_mass = running[-1]

    head = torch.searchsorted(running, age * head_mass, right=True)
    width = tail_mass / STRIPS
    start = torch.exp(torch.floor(age * STRIPS) * width)
    tail = (first * start * torch.exp(within * width) - offset + 0.5).long()
    drawn = torch.where(part * (head_mass + tail_mass) < head_mass, head, tail)
    return drawn.clamp(max=size - 1)


class InverseAge(Uniform):
    is_uniform = False

    def noise(self, count: int, generator: Generator) -> InverseAgeNoise:
        return InverseAgeNoise(*uniforms((3, count), generator))

    def sample(self, noise: InverseAgeNoise, order: Order, clock: Clock) -> Draw:
        return unit(order.slots(inverse_ages(noise, order.size, self.config.offset)))


class Cer(Uniform):
    is_uniform = False
    added = updates = turn = 0  # slots that came last, updates for them, and those since then

    def add(self, slots: Tensor, updates: int) -> None:
        if len(slots):
            self.added, self.updates, self.turn = len(slots), updates, 0

    def sample(self, noise: Tensor, order: Order, clock: Clock) -> Draw:
        slots = recent_slots(noise, order, order.size)
        age = self.turn * self.added // self.updates if self.turn < self.updates else 0
        slots[0] = order.slots(torch.tensor(min(age, order.size - 1)))
        self.turn += 1
        return unit(slots)

    def state_dict(self) -> dict[str, Any]:
        return {"added": self.added, "updates": self.updates, "turn": self.turn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.added, self.updates, self.turn = state["added"], state["updates"], state["turn"]


def larger_error(td_errors: Tensor) -> Tensor:
    """The largest of the critics' absolute errors [critics, B]; finite."""
    errors = td_errors.abs().amax(dim=0)
    return errors.nan_to_num(nan=0.0, posinf=MAX_ERROR).clamp(max=MAX_ERROR)


class Prioritised(Uniform):
    """Draws in proportion to priorities; what is new enters with the largest so far."""

    is_uniform = False
    needs_errors = True

    def __init__(self, config: Any, capacity: int) -> None:
        super().__init__(config, capacity)
        self.max_priority = 1.0
        self.tree = SumTree(torch.zeros(capacity, dtype=torch.float64))

    def priorities(self, errors: Tensor) -> Tensor:
        raise NotImplementedError

    def add(self, slots: Tensor, updates: int) -> None:
        self.tree.set(slots, torch.full((len(slots),), self.max_priority, dtype=torch.float64))

    def remove(self, slots: Tensor) -> None:
        self.tree.set(slots, torch.zeros(len(slots), dtype=torch.float64))

    def noise(self, count: int, generator: Generator) -> Tensor:
        return uniforms((LEVELS, count), generator)

    def sample(self, noise: Any, order: Order, clock: Clock) -> Draw:
        self.trace = {"mean_priority": self.tree.total() / order.size}
        return unit(self.find(noise, order))

    def find(self, noise: Any, order: Order) -> Tensor:
        return self.tree.find(noise)

    def feedback(self, slots: Tensor, td_errors: Tensor) -> None:
        priorities = self.priorities(larger_error(td_errors).cpu().double())
        self.tree.set(slots, priorities)
        self.max_priority = max(self.max_priority, priorities.max().item())

    def metrics(self) -> dict[str, float]:
        return {**super().metrics(), "max_priority": self.max_priority}

    def state_dict(self) -> dict[str, Any]:
        return {"priorities": self.tree.leaves.clone(), "max_priority": self.max_priority}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tree = SumTree(state["priorities"].cpu()[: self.capacity])
        self.max_priority = state["max_priority"]


def importance_weights(probabilities: Tensor, size: int, beta: float) -> Tensor:
    """(N P(i))^-beta, divided by the largest of the batch."""
    log_weights = -beta * torch.log(size * probabilities)
    return torch.exp(log_weights - log_weights.max()).float()


class Per(Prioritised):
    def priorities(self, errors: Tensor) -> Tensor:
        return (errors + self.config.epsilon) ** self.config.alpha

    def sample(self, noise: Tensor, order: Order, clock: Clock) -> Draw:
        slots = super().sample(noise, order, clock).slots
        probabilities = self.tree.leaves[slots] / self.tree.total()
        beta = float(anneal(self.config.beta, self.config.beta_end, clock))
        weights = importance_weights(probabilities, order.size, beta)
        self.trace |= {"beta": beta, "is_weight_mean": weights.mean()}
        return Draw(slots, weights)


def lap_priorities(errors: Tensor, alpha: float) -> Tensor:
    return errors.clamp(min=MIN_ERROR) ** alpha


class Lap(Prioritised):
    has_huber_loss = True

    def priorities(self, errors: Tensor) -> Tensor:
        return lap_priorities(errors, self.config.alpha)


class FadedPer(Lap):
    def noise(self, count: int, generator: Generator) -> Tensor:
        return uniforms((1 + LEVELS, count), generator)

    def find(self, noise: Tensor, order: Order) -> Tensor:
        """The floor's share of all priorities, or what the newest have above it."""
        config = self.config
        fading = torch.arange(min(config.fade_steps, order.size))
        slots = order.slots(fading)
        above_floor = config.floor ** (fading.double() / config.fade_steps) - config.floor
        newest = SumTree(self.tree.leaves[slots] * above_floor)
        floor_mass, newest_mass = config.floor * self.tree.total(), newest.total()
        part, places = noise[0], noise[1:]
        return torch.where(
            part * (floor_mass + newest_mass) < floor_mass,
            self.tree.find(places),
            slots[newest.find(places).clamp(max=len(slots) - 1)],
        )


class Pal(Uniform):
    needs_errors = True
    has_huber_loss = True

    def emphasis(self, td_errors: Tensor) -> Tensor:
        alpha = self.config.alpha
        mean = lap_priorities(larger_error(td_errors), alpha).mean()
        each = lap_priorities(larger_error(td_errors[None]), alpha)
        return each / mean


STRATEGIES: dict[str, type[Uniform]] = {
    "uniform": Uniform,
    "per": Per,
    "ere": Ere,
    "recency": Recency,
    "inverse-age": InverseAge,
    "cer": Cer,
    "lap": Lap,
    "pal": Pal,
    "faded-per": FadedPer,
}


def make_strategy(config: Any, capacity: int) -> Uniform:
    return STRATEGIES[config.name](config, capacity)


class Draws:
    """A strategy with the state that draws need beside its own."""

    def __init__(self, strategy: Uniform, seed: int = 0) -> None:
        self.strategy = strategy
        self.generator = Generator().manual_seed(seed)
        self.updates = 0

    def draw(self, count: int, order: Order, progress: float) -> Draw:
        """The slots of one update."""
        noise = self.strategy.noise(count, self.generator)
        draw = self.strategy.sample(noise, order, Clock(0, self.updates, progress))
        self.updates += 1
        return draw

    def state_dict(self) -> dict[str, Any]:
        """Plain tensors and numbers, which `torch.load(weights_only=True)` reads."""
        return {
            "strategy": self.strategy.state_dict(),
            "generator": self.generator.get_state(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> None:
        self.strategy.load_state_dict(state["strategy"])
        self.generator.set_state(state["generator"].cpu())
        self.updates = state["updates"]


def as_replay(replay: Any) -> Any:
    """The settings of a strategy that is given by its name or by them, checked."""
    if isinstance(replay, str):
        if replay not in REPLAYS:
            raise InputError(f"Unknown replay {replay!r}; it may be {', '.join(REPLAYS)}.")
        return REPLAYS[replay]()
    if type(replay) not in [REPLAYS[name] for name in REPLAYS]:
        raise InputError(
            f"A replay is named ({', '.join(REPLAYS)}) or given by its settings, such as "
            f"LapConfig(alpha=0.4), not {replay!r}."
        )
    config = conformed(replay)
    check_ranges(config)
    return config
