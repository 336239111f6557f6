"""What makes an off-policy agent with Stable-Baselines3's interface draw by another strategy, or
weigh what it draws."""

from __future__ import annotations

import secrets
import warnings
from dataclasses import replace
from typing import Any, ClassVar

import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import (
    get_action_dim,
    get_flattened_obs_dim,
    preprocess_obs,
)
from stable_baselines3.common.save_util import load_from_zip_file

from lfiw.adapters.drawing_by_ratio import ByRatio
from lfiw.adapters.sb3_replay import BufferDraws, Drawn, draw_recent, num_slots, numpy_seed
from lfiw.adapters.strategies import STRATEGIES, as_replay, make_strategy, strategy_kind
from lfiw.adapters.torch import Lfiw, as_config
from lfiw.errors import InputError
from lfiw.replay import REPLAYS
from lfiw.replay.lfiw import LfiwConfig
from lfiw.replay.uniform import UniformConfig
from lfiw.settings import from_json, to_json

SEEDS = 2**32


def replay_settings(replay: Any, lfiw: LfiwConfig | None) -> dict[str, Any]:
    """As JSON. LFIW is the default, and `lfiw` its settings."""
    if replay is None or replay == "lfiw":
        return to_json(as_config(lfiw))
    if lfiw is not None:
        raise InputError(
            f"lfiw=... are the settings of replay='lfiw': leave out that or replay={replay!r}."
        )
    return to_json(as_replay(replay))


class WeighedBuffer:
    """Stands before the agent's buffer while it trains."""

    def __init__(self, agent: ReplayAgent, batch_size: int, updates: int) -> None:
        self.agent, self.batch_size, self.updates = agent, batch_size, updates
        self.buffer = agent.replay_buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.buffer, name)

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """As the strategy draws, for each minibatch of it."""
        agent = self.agent
        batch_sizes = [len(part) for part in torch.empty(batch_size, 0).split(self.batch_size)]
        progress = 1 - agent._current_progress_remaining
        drawn = agent.draws.sample(self.buffer, batch_sizes, env, self.updates, progress)
        if agent.lfiw is not None:
            drawn = drawn._replace(weights=self.ratio_weights(agent.lfiw, drawn, env))
        return agent.take(drawn)

    def ratio_weights(self, lfiw: Lfiw, drawn: Drawn, env: Any) -> torch.Tensor:
        """And a step of the ratio network for each minibatch."""
        agent, buffer, count = self.agent, self.buffer, len(drawn.weights)
        strategy = agent.draws.strategy
        lfiw.learning_rate = agent.critic_learning_rate()
        slow = drawn.samples
        with numpy_seed(int(torch.randint(SEEDS, (), generator=lfiw.generator))):
            recent = draw_recent(buffer, count, lfiw.config.fast_size, env)
            if not strategy.is_uniform:
                slow = buffer.sample(count, env=env)
        slow_size = buffer.size() * buffer.n_envs

        def split(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return rows.split(self.batch_size)

        weights = []
        for own, *rows in zip(
            split(drawn.weights),
            split(agent.ratio_inputs(slow)),
            split(agent.ratio_inputs(recent)),
            split(agent.ratio_inputs(drawn.samples)),
            split(torch.arange(count) if drawn.slots is None else drawn.slots),
            strict=True,
        ):
            slow_rows, fast_rows, batch, slots = rows
            if strategy.is_uniform:
                weights.append(lfiw.weigh(slow_rows, fast_rows, slow_size))
            elif isinstance(strategy, ByRatio):
                strategy.refresh(slots, lfiw.ratios(slow_rows, fast_rows, slow_size, batch))
                weights.append(own)
            else:
                product = own * lfiw.weigh(slow_rows, fast_rows, slow_size, batch)
                weights.append(product / product.mean())
        return torch.cat(weights)


class ReplayAgent(OffPolicyAlgorithm):
    """Mixed in before an agent's class; its `learn`, `save` and `load` stay as they are.

    The state of a strategy and the ratio network are saved as more state dicts of the agent,
    settings as JSON.
    """

    gives_errors: ClassVar[bool] = True  # whether strategies learn of the critic's TD errors

    draws: BufferDraws
    lfiw: Lfiw | None
    replay_buffer: Any

    def __init__(
        self, *args: Any, replay: Any = None, lfiw: LfiwConfig | None = None, **kwargs: Any
    ) -> None:
        self.replay_settings = replay_settings(replay, lfiw)
        super().__init__(*args, **kwargs)

    def draw(self, batch_size: int) -> Drawn:
        """A batch as the strategy draws it: samples, slots (row * n_envs + environment; None where
        the buffer itself draws) and weights."""
        progress = 1 - self._current_progress_remaining
        env = self._vec_normalize_env
        return self.draws.sample(self.replay_buffer, [batch_size], env, 1, progress)

    def take(self, drawn: Drawn) -> Any:
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
        own = self.__dict__
        if "lfiw_settings" in own:  # of a file from before there were other strategies
            self.replay_settings = own.pop("lfiw_settings")
        if "replay" in own or isinstance(own.get("lfiw"), LfiwConfig):  # given to `load`
            self.replay_settings = replay_settings(own.pop("replay", None), own.pop("lfiw", None))
        self.lfiw, self.draws = make_parts(self, self.replay_settings, self.gives_errors)

    def _setup_learn(self, total_timesteps: int, *args: Any, **kwargs: Any) -> Any:
        total_timesteps, callback = super()._setup_learn(total_timesteps, *args, **kwargs)
        if self.lfiw is not None:
            self._warn_of_warmup(self.lfiw, total_timesteps)
        return total_timesteps, callback

    def _warn_of_warmup(self, lfiw: Lfiw, total_timesteps: int) -> None:
        end = lfiw.env_steps + total_timesteps - self.num_timesteps
        warmup = lfiw.config.warmup_env_steps
        if end <= warmup:
            drawing = self.draws.strategy.config
            name = getattr(drawing, "over", drawing).name  # LFIW that draws itself is over uniform
            warnings.warn(
                f"Training ends after {end} environment steps, before LFIW's warm-up of {warmup}: "
                f"this is plain {name} replay (lower warmup_env_steps of LfiwConfig).",
                stacklevel=4,
            )

    def _on_step(self) -> None:
        super()._on_step()
        self.draws.new_rows += 1
        if self.lfiw is not None:
            self.lfiw.env_steps += self.n_envs

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        buffer = self.replay_buffer
        self.replay_buffer = WeighedBuffer(self, batch_size, gradient_steps)
        try:
            super().train(gradient_steps=gradient_steps, batch_size=batch_size)
        finally:
            self.replay_buffer = buffer
        metrics = {f"replay/{name}": v for name, v in self.draws.strategy.metrics().items()}
        if self.lfiw is not None:
            metrics |= {f"lfiw/{name}": value for name, value in self.lfiw.metrics().items()}
        for name, value in metrics.items():
            self.logger.record(name, value)

    def _own_states(self) -> list[str]:
        """What is saved beside the agent; uniform draws leave no state."""
        drawing = [] if self.draws.strategy.is_uniform else ["draws"]
        return drawing if self.lfiw is None else [*drawing, "lfiw"]

    def set_parameters(
        self, load_path_or_dict: Any, exact_match: bool = True, device: Any = "auto"
    ) -> None:
        """Parameters of the plain agent are taken too, and of one with another strategy: this
        one's then stay as they are, in a new model at their start."""
        given = load_path_or_dict
        if not isinstance(given, dict):
            _, given, _ = load_from_zip_file(given, device=device, load_data=False)
        agent = {k: v for k, v in given.items() if k not in ("draws", "lfiw")}
        own = {
            name: given.get(name) or getattr(self, name).state_dict() for name in self._own_states()
        }
        super().set_parameters(own | agent, exact_match, device)

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        state_dicts, variables = super()._get_torch_save_params()
        return [*state_dicts, *self._own_states()], variables

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "draws", "lfiw"]


def make_parts(
    model: Any, settings: dict[str, Any], gives_errors: bool
) -> tuple[Lfiw | None, BufferDraws]:
    """The ratio network, where the settings are LFIW's, and what draws."""
    config = from_json(REPLAYS[settings["name"]], settings)
    is_lfiw = isinstance(config, LfiwConfig)
    seed = secrets.randbits(31) if model.seed is None else model.seed
    capacity = num_slots(model.replay_buffer)
    lfiw = make_estimator(model, config, seed) if is_lfiw else None
    if is_lfiw and config.use == "priority":
        config.check(model.buffer_size)
        return lfiw, BufferDraws(ByRatio(config, capacity), seed)
    drawing = config.over if is_lfiw else config
    if strategy_kind(drawing).needs_errors and not gives_errors:
        fit = [name for name, kind in STRATEGIES.items() if not kind.needs_errors]
        raise InputError(
            f"The compiled update of this {type(model).__name__} shows no TD errors, which "
            f"replay={drawing.name!r} needs: it may be {', '.join(fit)} or lfiw."
        )
    return lfiw, BufferDraws(make_strategy(drawing, capacity), seed)


def make_estimator(model: Any, config: LfiwConfig, seed: int) -> Lfiw:
    estimator = Lfiw(
        get_flattened_obs_dim(model.observation_space),
        get_action_dim(model.action_space),
        replace(config, over=UniformConfig(), use="weight"),  # its matter is not what draws
        buffer_size=model.buffer_size,
        seed=seed,
        device=model.replay_buffer.device,
    )
    estimator.env_steps = model.num_timesteps
    return estimator
