"""The job with TorchRL: its collector, replay buffer and losses, in a loop of ours.

Libraries of the field are imported by name: lfiw itself needs none of them.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from lfiw.acting.envs import make_env
from lfiw.env_config import EnvConfig
from peers.job import Mark, PeerJob, run_script

TAU = 0.005


def load(name: str) -> Any:
    return importlib.import_module(name)


def make_networks(job: PeerJob, env: Any, outputs_per_action: int) -> tuple[Any, Any]:
    """The actor's layers, and the critic that the losses double."""
    nn, modules = load("torch.nn"), load("torchrl.modules")
    obs_size, action_size = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]

    def mlp(inputs: int, outputs: int) -> Any:
        cells, device = list(job.hidden_sizes), env.device
        return modules.MLP(
            inputs, outputs, num_cells=cells, activation_class=nn.ReLU, device=device
        )

    actor = mlp(obs_size, outputs_per_action * action_size)
    critic = modules.ValueOperator(
        mlp(obs_size + action_size, 1), in_keys=["observation", "action"]
    )
    return actor, critic


def make_sac(job: PeerJob, env: Any) -> tuple[Any, Callable[[Any], None]]:
    """The policy that explores, and a function that makes one update."""
    torch, modules, objectives = load("torch"), load("torchrl.modules"), load("torchrl.objectives")
    layers, critic = make_networks(job, env, 2)
    spec = env.action_spec
    parameters = load("tensordict.nn").TensorDictModule(
        torch.nn.Sequential(layers, modules.NormalParamExtractor()),
        in_keys=["observation"],
        out_keys=["loc", "scale"],
    )
    actor = modules.ProbabilisticActor(
        parameters,
        spec=spec,
        in_keys=["loc", "scale"],
        distribution_class=modules.TanhNormal,
        distribution_kwargs={"low": spec.space.low, "high": spec.space.high, "tanh_loc": False},
    )
    losses = objectives.SACLoss(actor, critic, loss_function="l2", action_spec=spec)
    losses.make_value_estimator(gamma=0.99)
    targets = objectives.SoftUpdate(losses, tau=TAU)
    optimiser = torch.optim.Adam(losses.parameters(), 3e-4)

    def update(batch: Any) -> None:
        found = losses(batch)
        optimiser.zero_grad()
        (found["loss_qvalue"] + found["loss_actor"] + found["loss_alpha"]).backward()
        optimiser.step()
        targets.step()

    return actor, update


def make_td3(job: PeerJob, env: Any) -> tuple[Any, Callable[[Any], None]]:
    """The policy that explores, and a function that makes one update."""
    torch, modules, objectives = load("torch"), load("torchrl.modules"), load("torchrl.objectives")
    tensordict = load("tensordict.nn")
    layers, critic = make_networks(job, env, 1)
    spec = env.action_spec
    tanh = modules.TanhModule(in_keys=["raw_action"], out_keys=["action"], spec=spec)
    raw = tensordict.TensorDictModule(layers, in_keys=["observation"], out_keys=["raw_action"])
    actor = tensordict.TensorDictSequential(raw, tanh)
    noise = modules.AdditiveGaussianModule(spec, sigma_init=0.1, sigma_end=0.1, device=env.device)
    losses = objectives.TD3Loss(actor, critic, loss_function="l2", action_spec=spec)
    losses.make_value_estimator(gamma=0.99)
    targets = objectives.SoftUpdate(losses, tau=TAU)
    critic_optimiser, actor_optimiser = (
        torch.optim.Adam(list(part.flatten_keys().values()), 1e-3)
        for part in (losses.qvalue_network_params, losses.actor_network_params)
    )
    updates = 0

    def step(optimiser: Any, loss: Any) -> None:
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    def update(batch: Any) -> None:
        nonlocal updates
        updates += 1
        step(critic_optimiser, losses.value_loss(batch)[0])
        if updates % 2 == 0:
            step(actor_optimiser, losses.actor_loss(batch)[0])
            targets.step()

    return tensordict.TensorDictSequential(actor, noise), update


def run(job: PeerJob) -> list[Mark]:
    torch, data, envs = load("torch"), load("torchrl.data"), load("torchrl.envs")
    torch.manual_seed(job.seeds[0])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gym = envs.GymWrapper(make_env(EnvConfig(job.env)), device=device)
    env = envs.TransformedEnv(gym, envs.DoubleToFloat())
    policy, update = {"sac": make_sac, "td3": make_td3}[job.agent](job, env)
    buffer = data.TensorDictReplayBuffer(
        storage=data.LazyTensorStorage(job.buffer_size, device=device), batch_size=job.batch_size
    )
    collector = load("torchrl.collectors").Collector(
        env,
        policy,
        frames_per_batch=job.phase_env_steps,
        total_frames=job.env_steps,
        init_random_frames=job.learning_starts,
        device=device,
    )
    marks: list[Mark] = []
    env_steps = 0
    for batch in collector:
        buffer.extend(batch.reshape(-1))
        env_steps += batch.numel()
        if env_steps > job.learning_starts:
            for _ in range(batch.numel()):
                update(buffer.sample())
        if device.type == "cuda":
            torch.cuda.synchronize()
        marks.append((env_steps, time.perf_counter()))
    collector.shutdown()
    return marks


if __name__ == "__main__":
    run_script(run)
