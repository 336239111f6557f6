"""LFIW for Tianshou: replay buffers that set `batch.weight`, which its DDPG, TD3, SAC and REDQ
multiply into the critic's squared error.

    buffer = LfiwVectorReplayBuffer(1_000_000, num_envs)  # in place of VectorReplayBuffer

`StrategyVectorReplayBuffer` draws by another strategy.
"""

from __future__ import annotations

from typing import Any

from lfiw.adapters.versions import require
from lfiw.errors import InputError
from lfiw.replay.lfiw import LfiwConfig

require("lfiw.adapters.tianshou", "tianshou")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from tianshou.data import Batch, ReplayBuffer, VectorReplayBuffer  # noqa: E402

from lfiw.adapters.tianshou_strategies import (  # noqa: E402
    StrategyReplayBuffer as StrategyReplayBuffer,
)
from lfiw.adapters.tianshou_strategies import (  # noqa: E402
    StrategyVectorReplayBuffer as StrategyVectorReplayBuffer,
)
from lfiw.adapters.torch import Lfiw, check_config  # noqa: E402


def flat(values: Any) -> np.ndarray:
    """[B, ...], or a batch of several such, as [B, n]."""
    if isinstance(values, Batch):
        return np.concatenate([flat(values[key]) for key in sorted(values.get_keys())], axis=1)
    return np.asarray(values, np.float32).reshape(len(values), -1)


class Weighed(ReplayBuffer):
    """Mixed in before a buffer's class. The fast memory is the slots of the newest transitions."""

    def __init__(
        self,
        *args: Any,
        lfiw: LfiwConfig | None = None,
        learning_rate: float = 3e-4,
        seed: int = 0,
        device: torch.device | str = "cpu",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lfiw_config = check_config(lfiw, self.maxsize)
        self.lfiw_settings: dict[str, Any] = {
            "learning_rate": learning_rate,
            "seed": seed,
            "device": str(device),
        }
        self.lfiw: Lfiw | None = None  # sized by the first sample
        self.env_steps = self.num_recent = 0
        self.recent_slots = np.zeros(self.lfiw_config.fast_size, int)

    def add(self, *args: Any, **kwargs: Any) -> Any:
        slots, *rest = super().add(*args, **kwargs)
        self._remember(slots)
        return slots, *rest

    def update(self, buffer: ReplayBuffer) -> np.ndarray:
        slots = super().update(buffer)
        self._remember(slots)
        return slots

    def _remember(self, slots: np.ndarray) -> None:
        self.env_steps += len(slots)
        places = np.arange(self.num_recent, self.num_recent + len(slots))
        self.recent_slots[places % len(self.recent_slots)] = slots
        self.num_recent += len(slots)

    def reset(self, keep_statistics: bool = False) -> None:
        super().reset(keep_statistics)
        self.num_recent = 0

    def sample(self, batch_size: int | None) -> tuple[Any, np.ndarray]:
        if not batch_size:
            raise InputError(
                "LFIW weights the minibatches of an off-policy agent's critic; this agent asks "
                "for the whole buffer, as PPO and other on-policy agents do."
            )
        if not self.num_recent:
            raise InputError("The buffer has seen no transition through add() or update().")
        batch, indices = super().sample(batch_size)
        batch.weight = self._weights(batch)
        return batch, indices

    def _weights(self, batch: Any) -> np.ndarray:
        if np.issubdtype(batch.act.dtype, np.integer):
            raise InputError(f"LFIW needs continuous actions, not {batch.act.dtype} ones.")
        obs, act = flat(batch.obs), flat(batch.act)
        if self.lfiw is None:
            self.lfiw = Lfiw(
                obs.shape[1],
                act.shape[1],
                self.lfiw_config,
                buffer_size=self.maxsize,
                **self.lfiw_settings,
            )
        lfiw = self.lfiw
        lfiw.env_steps = self.env_steps
        filled = min(self.num_recent, len(self.recent_slots))
        picks = torch.randint(filled, (len(act),), generator=lfiw.generator).numpy()
        slots = self.recent_slots[picks]
        fast = lfiw.rows(flat(self.get(slots, "obs")), flat(self.act[slots]))
        return lfiw.weigh(lfiw.rows(obs, act), fast, len(self)).cpu().numpy()


class LfiwReplayBuffer(Weighed, ReplayBuffer):
    """`ReplayBuffer(size, ...)` for one environment, with LFIW's weights in `batch.weight`.

    Also takes `lfiw`, an `LfiwConfig`; `learning_rate`, the critic's; `seed` and `device`.
    """


class LfiwVectorReplayBuffer(Weighed, VectorReplayBuffer):
    """`VectorReplayBuffer(total_size, buffer_num, ...)` for several; else as above."""
