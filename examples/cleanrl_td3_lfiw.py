"""TD3 in one file, with likelihood-free importance weights.

    python examples/cleanrl_td3_lfiw.py --env-id HalfCheetah-v5

Lines that end in `# LFIW` are all that the weights add; without them this is plain TD3.
Needs torch, gymnasium, tyro and tensorboardX: pip install '.[torch]' in a checkout of lfiw
"""

import copy
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
    policy_lr: float = 1e-3
    q_lr: float = 1e-3
    exploration_noise: float = 0.1  # in units of half the action range, as the next two
    policy_noise: float = 0.2
    noise_clip: float = 0.5
    policy_frequency: int = 2
    hidden_size: int = 256
    eval_episodes: int = 5
    lfiw: LfiwArgs = field(default_factory=LfiwArgs)  # LFIW


def mlp(inputs: int, outputs: int, width: int) -> nn.Sequential:
    layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class Actor(nn.Module):
    """One action for each observation, squashed by tanh into the action space."""

    def __init__(self, env: gym.Env, width: int) -> None:
        super().__init__()
        low, high = torch.tensor(env.action_space.low), torch.tensor(env.action_space.high)
        self.body = mlp(env.observation_space.shape[0], len(low), width)
        self.register_buffer("low", low)
        self.register_buffer("high", high)
        self.register_buffer("scale", (high - low) / 2)

    def forward(self, obs: Tensor) -> Tensor:
        return self.low + (self.body(obs).tanh() + 1) * self.scale

    def noisy(self, obs: Tensor, noise: Tensor) -> Tensor:
        return (self(obs) + noise * self.scale).clamp(self.low, self.high)


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
                action = actor(torch.tensor(obs, dtype=torch.float32, device=device))
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
    writer = SummaryWriter(f"runs/{args.env_id}__td3__{args.seed}__{int(time.time())}")

    actor = Actor(env, args.hidden_size).to(device)
    critic = Critic(env, args.hidden_size).to(device)
    actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
    actor_optimizer = torch.optim.Adam(actor.parameters(), args.policy_lr)
    critic_optimizer = torch.optim.Adam(critic.parameters(), args.q_lr)
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
                noise = args.exploration_noise * torch.randn_like(actor.scale)
                noisy = actor.noisy(torch.tensor(obs, dtype=torch.float32, device=device), noise)
            action = noisy.cpu().numpy()
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
        with torch.no_grad():
            noise = args.policy_noise * torch.randn_like(b_action)
            noise = noise.clamp(-args.noise_clip, args.noise_clip)
            next_action = actor_target.noisy(b_next_obs, noise)
            next_q = critic_target(b_next_obs, next_action).min(0).values
            target = b_reward[:, 0] + args.gamma * (1 - b_terminated[:, 0]) * next_q
        squared_errors = ((critic(b_obs, b_action) - target) ** 2).sum(0)
        squared_errors = lfiw.weights(b_obs, b_action) * squared_errors  # LFIW
        critic_loss = squared_errors.mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()

        if step % args.policy_frequency == 0:
            actor_loss = -critic(b_obs, actor(b_obs))[0].mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            with torch.no_grad():
                for online, target_network in ((actor, actor_target), (critic, critic_target)):
                    pairs = zip(online.parameters(), target_network.parameters(), strict=True)
                    for value, slow in pairs:
                        slow.lerp_(value, args.tau)

        if step % 1000 == 0:
            writer.add_scalar("losses/critic_loss", critic_loss.item(), step)
            writer.add_scalar("charts/SPS", step / (time.time() - start), step)
            for name, value in lfiw.metrics().items():  # LFIW
                writer.add_scalar(f"lfiw/{name}", value, step)  # LFIW

    writer.close()
    result = evaluate(actor, args.env_id, args.eval_episodes, device)
    print(f"mean return of {args.eval_episodes} episodes: {result:.1f}")


if __name__ == "__main__":
    main(tyro.cli(Args))
