"""SAC in one file, with likelihood-free importance weights.

    python examples/cleanrl_sac_lfiw.py --env-id HalfCheetah-v5

Lines that end in `# LFIW` are all that the weights add; without them this is plain SAC.
Needs torch, gymnasium, tyro and tensorboardX: pip install '.[torch]' in a checkout of lfiw
"""

import random
import time
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import torch
import tyro
from tensorboardX import SummaryWriter
from torch import Tensor, nn

from lfiw import LfiwConfig  # LFIW
from lfiw.adapters.torch import Lfiw  # LFIW


@dataclass  # LFIW
class LfiwArgs:  # LFIW
    temperature: float = LfiwConfig.temperature  # LFIW
    fast_size: int = LfiwConfig.fast_size  # LFIW
    warmup_env_steps: int | None = None  # by default a tenth of all steps  # LFIW
    hidden_sizes: tuple[int, ...] = LfiwConfig.hidden_sizes  # LFIW
    min_effective_sample_size: float = LfiwConfig.min_effective_sample_size  # LFIW


@dataclass
class Args:
    env_id: str = "HalfCheetah-v5"
    total_timesteps: int = 1_000_000
    seed: int = 1
    device: str = "cpu"
    buffer_size: int = 1_000_000
    batch_size: int = 256
    learning_starts: int = 5_000
    gamma: float = 0.99
    tau: float = 0.005
    policy_lr: float = 3e-4
    q_lr: float = 1e-3
    hidden_size: int = 256
    eval_episodes: int = 5
    lfiw: LfiwArgs = field(default_factory=LfiwArgs)  # LFIW


def mlp(inputs: int, outputs: int, width: int) -> nn.Sequential:
    layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class Actor(nn.Module):
    """A Gaussian squashed by tanh into the action space."""

    def __init__(self, env: gym.Env, width: int) -> None:
        super().__init__()
        low, high = torch.tensor(env.action_space.low), torch.tensor(env.action_space.high)
        self.body = mlp(env.observation_space.shape[0], 2 * len(low), width)
        self.register_buffer("scale", (high - low) / 2)
        self.register_buffer("bias", (high + low) / 2)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A sampled action, its log-probability and the most likely action."""
        mean, log_std = self.body(obs).chunk(2, dim=-1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
        raw = normal.rsample()
        # log(1 - tanh(x)^2), written so that it stays finite
        log_slope = 2 * (np.log(2) - raw - nn.functional.softplus(-2 * raw))
        log_prob = (normal.log_prob(raw) - log_slope - self.scale.log()).sum(-1)
        return raw.tanh() * self.scale + self.bias, log_prob, mean.tanh() * self.scale + self.bias


class Critic(nn.Module):
    def __init__(self, env: gym.Env, width: int) -> None:
        super().__init__()
        inputs = env.observation_space.shape[0] + env.action_space.shape[0]
        self.q1, self.q2 = mlp(inputs, 1, width), mlp(inputs, 1, width)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """Both values, [2, B]."""
        inputs = torch.cat([obs, action], dim=-1)
        return torch.stack([self.q1(inputs).squeeze(-1), self.q2(inputs).squeeze(-1)])


class ReplayBuffer:
    """A ring of (obs, action, reward, terminated, next_obs)."""

    def __init__(self, size: int, env: gym.Env, device: str) -> None:
        obs, action = env.observation_space.shape[0], env.action_space.shape[0]
        widths = (obs, action, 1, 1, obs)
        self.columns = [np.zeros((size, width), np.float32) for width in widths]
        self.size, self.added, self.device = size, 0, device

    def add(self, *values: np.ndarray | float) -> None:
        for column, value in zip(self.columns, values, strict=True):
            column[self.added % self.size] = value
        self.added += 1

    def sample(self, batch_size: int) -> list[Tensor]:
        rows = np.random.randint(min(self.added, self.size), size=batch_size)
        return [torch.tensor(column[rows], device=self.device) for column in self.columns]


def evaluate(actor: Actor, env_id: str, episodes: int, device: str) -> float:
    env, total = gym.make(env_id), 0.0
    for seed in range(episodes):
        obs, over = env.reset(seed=seed)[0], False
        while not over:
            with torch.no_grad():
                action = actor(torch.tensor(obs, dtype=torch.float32, device=device))[2]
            obs, reward, terminated, truncated, _ = env.step(action.cpu().numpy())
            total, over = total + reward, terminated or truncated
    return total / episodes


def main(args: Args) -> None:
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = args.device
    env = gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))
    env.action_space.seed(args.seed)
    writer = SummaryWriter(f"runs/{args.env_id}__sac__{args.seed}__{int(time.time())}")

    actor = Actor(env, args.hidden_size).to(device)
    critic = Critic(env, args.hidden_size).to(device)
    critic_target = Critic(env, args.hidden_size).to(device)
    critic_target.load_state_dict(critic.state_dict())
    log_alpha = torch.zeros(1, requires_grad=True, device=device)
    actor_optimizer = torch.optim.Adam(actor.parameters(), args.policy_lr)
    critic_optimizer = torch.optim.Adam(critic.parameters(), args.q_lr)
    alpha_optimizer = torch.optim.Adam([log_alpha], args.q_lr)
    target_entropy = -float(np.prod(env.action_space.shape))
    buffer = ReplayBuffer(args.buffer_size, env, device)
    if args.lfiw.warmup_env_steps is None:  # LFIW
        args.lfiw.warmup_env_steps = args.total_timesteps // 10  # LFIW
    if args.lfiw.warmup_env_steps >= args.total_timesteps:  # LFIW
        print("Note: the run ends before --lfiw.warmup-env-steps; all weights stay 1.")  # LFIW
    elif args.lfiw.fast_size >= args.total_timesteps:  # LFIW
        print("Note: --lfiw.fast-size holds all steps; the weights stay near 1.")  # LFIW
    lfiw = Lfiw(  # LFIW
        env.observation_space.shape[0],  # LFIW
        env.action_space.shape[0],  # LFIW
        LfiwConfig(**vars(args.lfiw)),  # LFIW
        learning_rate=args.q_lr,  # LFIW
        buffer_size=args.buffer_size,  # LFIW
        seed=args.seed,  # LFIW
        device=device,  # LFIW
    )  # LFIW

    start = time.time()
    obs, _ = env.reset(seed=args.seed)
    for step in range(1, args.total_timesteps + 1):
        if step <= args.learning_starts:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                sampled = actor(torch.tensor(obs, dtype=torch.float32, device=device))[0]
            action = sampled.cpu().numpy()
        next_obs, reward, terminated, truncated, info = env.step(action)
        buffer.add(obs, action, reward, terminated, next_obs)  # a time limit is no end
        lfiw.observe(obs, action)  # LFIW
        obs = next_obs
        if terminated or truncated:
            print(f"step {step}: return {info['episode']['r']:.1f}", flush=True)
            writer.add_scalar("charts/episodic_return", info["episode"]["r"], step)
            obs, _ = env.reset()
        if step <= args.learning_starts:
            continue

        b_obs, b_action, b_reward, b_terminated, b_next_obs = buffer.sample(args.batch_size)
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            next_action, next_log_prob, _ = actor(b_next_obs)
            next_q = critic_target(b_next_obs, next_action).min(0).values - alpha * next_log_prob
            target = b_reward[:, 0] + args.gamma * (1 - b_terminated[:, 0]) * next_q
        squared_errors = ((critic(b_obs, b_action) - target) ** 2).sum(0)
        squared_errors = lfiw.weights(b_obs, b_action) * squared_errors  # LFIW
        critic_loss = squared_errors.mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()

        new_action, log_prob, _ = actor(b_obs)
        actor_loss = (alpha * log_prob - critic(b_obs, new_action).min(0).values).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        alpha_loss = -(log_alpha.exp() * (log_prob.detach() + target_entropy)).mean()
        alpha_optimizer.zero_grad()
        alpha_loss.backward()
        alpha_optimizer.step()
        with torch.no_grad():
            for value, slow in zip(critic.parameters(), critic_target.parameters(), strict=True):
                slow.lerp_(value, args.tau)

        if step % 1000 == 0:
            writer.add_scalar("losses/critic_loss", critic_loss.item(), step)
            writer.add_scalar("losses/actor_loss", actor_loss.item(), step)
            writer.add_scalar("charts/SPS", step / (time.time() - start), step)
            for name, value in lfiw.metrics().items():  # LFIW
                writer.add_scalar(f"lfiw/{name}", value, step)  # LFIW

    writer.close()
    result = evaluate(actor, args.env_id, args.eval_episodes, device)
    print(f"mean return of {args.eval_episodes} episodes: {result:.1f}")


if __name__ == "__main__":
    main(tyro.cli(Args))
