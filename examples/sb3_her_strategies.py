"""Stable-Baselines3's SAC with hindsight experience replay, by any strategy.

    python examples/sb3_her_strategies.py --replay lap

The task is to flip bits until they are as the goal says. Needs stable-baselines3 and tyro:
pip install '.[sb3]' in a checkout of lfiw
"""

from dataclasses import dataclass

import tyro
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.evaluation import evaluate_policy

from lfiw.adapters.sb3 import SAC


@dataclass
class Args:
    replay: str = "lap"
    n_bits: int = 3
    n_envs: int = 2
    total_timesteps: int = 2000
    seed: int = 0


def main(args: Args) -> None:
    def make_env() -> BitFlippingEnv:
        return BitFlippingEnv(n_bits=args.n_bits, continuous=True, max_steps=args.n_bits)

    model = SAC(
        "MultiInputPolicy",
        make_vec_env(make_env, args.n_envs, seed=args.seed),
        replay=args.replay,
        replay_buffer_class=HerReplayBuffer,
        learning_starts=200,
        learning_rate=1e-3,
        gamma=0.9,
        batch_size=128,
        gradient_steps=-1,  # one for each step of an environment
        buffer_size=50_000,
        policy_kwargs={"net_arch": [64, 64]},
        seed=args.seed,
    )
    model.learn(args.total_timesteps)
    returns, _ = evaluate_policy(
        model, make_env(), n_eval_episodes=20, return_episode_rewards=True, warn=False
    )
    # A step costs 1 unless it reaches the goal, which ends the episode.
    print(f"success {sum(value > -args.n_bits for value in returns) / len(returns):.2f}")


if __name__ == "__main__":
    main(tyro.cli(Args))
