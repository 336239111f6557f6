"""What makes an off-policy agent with Stable-Baselines3's interface draw weighed batches."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import (
    get_action_dim,
    get_flattened_obs_dim,
    preprocess_obs,
)

from lfiw.adapters.sb3_replay import draw_recent, numpy_seed
from lfiw.adapters.torch import Lfiw, as_config
from lfiw.replay.lfiw import LfiwConfig
from lfiw.settings import from_json, to_json

SEEDS = 2**32


def make_estimator(model: Any, settings: dict[str, Any]) -> Lfiw:
    estimator = Lfiw(
        get_flattened_obs_dim(model.observation_space),
        get_action_dim(model.action_space),
        from_json(LfiwConfig, settings),
        buffer_size=model.buffer_size,
        seed=model.seed or 0,
        device=model.replay_buffer.device,
    )
    estimator.env_steps = model.num_timesteps
    return estimator


class WeighedBuffer:
    """Stands before the agent's buffer while it trains."""

    def __init__(self, agent: LfiwAgent, batch_size: int) -> None:
        self.agent, self.batch_size, self.buffer = agent, batch_size, agent.replay_buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.buffer, name)

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """The buffer's own sample, and a step of the ratio network for each minibatch of it."""
        agent, lfiw, buffer = self.agent, self.agent.lfiw, self.buffer
        lfiw.learning_rate = agent.critic_learning_rate()
        samples = buffer.sample(batch_size, env=env)
        with numpy_seed(int(torch.randint(SEEDS, (), generator=lfiw.generator))):
            recent = draw_recent(buffer, batch_size, lfiw.config.fast_size, env)
        slow_size = buffer.size() * buffer.n_envs
        weights = [
            lfiw.weigh(slow, fast, slow_size)
            for slow, fast in zip(
                agent.ratio_inputs(samples).split(self.batch_size),
                agent.ratio_inputs(recent).split(self.batch_size),
                strict=True,
            )
        ]
        return agent.take_weights(samples, torch.cat(weights))


class LfiwAgent(OffPolicyAlgorithm):
    """Mixed in before an agent's class; its `learn`, `save` and `load` stay as they are.

    The ratio network is saved as one more state dict of the agent, its settings as JSON.
    """

    lfiw: Lfiw
    replay_buffer: Any

    def __init__(self, *args: Any, lfiw: LfiwConfig | None = None, **kwargs: Any) -> None:
        self.lfiw_settings = to_json(as_config(lfiw))
        super().__init__(*args, **kwargs)

    def take_weights(self, samples: Any, weights: torch.Tensor) -> Any:
        """Bring the weights to the critic; the samples as the agent shall see them."""
        raise NotImplementedError

    def critic_learning_rate(self) -> float:
        """Of the updates to come, as the agent's own `train` sets it."""
        return float(self.lr_schedule(self._current_progress_remaining))

    def ratio_inputs(self, samples: Any) -> torch.Tensor:
        """(s, a) as one row each; images scaled and categories one-hot, as the critic sees them."""
        obs = preprocess_obs(samples.observations, self.observation_space)
        parts = [*obs.values()] if isinstance(obs, dict) else [obs]
        flat = [part.flatten(1).float() for part in (*parts, samples.actions)]
        return torch.cat(flat, dim=1)

    def _setup_model(self) -> None:
        super()._setup_model()
        self.lfiw = make_estimator(self, self.lfiw_settings)

    def _setup_learn(self, total_timesteps: int, *args: Any, **kwargs: Any) -> Any:
        total_timesteps, callback = super()._setup_learn(total_timesteps, *args, **kwargs)
        end = self.lfiw.env_steps + total_timesteps - self.num_timesteps
        warmup = self.lfiw.config.warmup_env_steps
        if end <= warmup:
            warnings.warn(
                f"Training ends after {end} environment steps, before LFIW's warm-up of {warmup}: "
                f"this is plain uniform replay (lower warmup_env_steps of LfiwConfig).",
                stacklevel=3,
            )
        return total_timesteps, callback

    def _on_step(self) -> None:
        super()._on_step()
        self.lfiw.env_steps += self.n_envs

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        buffer = self.replay_buffer
        self.replay_buffer = WeighedBuffer(self, batch_size)
        try:
            super().train(gradient_steps=gradient_steps, batch_size=batch_size)
        finally:
            self.replay_buffer = buffer
        for name, value in self.lfiw.metrics().items():
            self.logger.record(f"lfiw/{name}", value)

    def set_parameters(self, load_path_or_dict: Any, *args: Any, **kwargs: Any) -> None:
        """Parameters of the plain agent are taken too; the ratio network then starts anew."""
        if isinstance(load_path_or_dict, dict):
            load_path_or_dict = {"lfiw": self.lfiw.state_dict(), **load_path_or_dict}
        super().set_parameters(load_path_or_dict, *args, **kwargs)

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        state_dicts, variables = super()._get_torch_save_params()
        return [*state_dicts, "lfiw"], variables
