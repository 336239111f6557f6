"""Evaluating and recording trained policies from their run folder. No jax here."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lfiw.collector import Evaluator, probe
from lfiw.config_file import read_config, seeds_of
from lfiw.env_config import EnvConfig
from lfiw.envs import check_spaces, make_env
from lfiw.errors import InputError, RunError, one_line
from lfiw.files import make_parent
from lfiw.host import usable_cores
from lfiw.policy import Policy, load_policy
from lfiw.rows import summed_up
from lfiw.runlog import stopped_seeds
from lfiw.settings import from_json
from lfiw.types import EnvSpec

MAX_RECORDED_STEPS = 10_000


def env_of(run: str | Path) -> EnvConfig:
    config: EnvConfig = from_json(EnvConfig, read_config(run)["config"]["env"])
    return config


def evaluate_run(
    run: str | Path, episodes: int = 10, seed: int | None = None, episode_seed: int = 0
) -> list[dict[str, Any]]:
    """Deterministic episodes of one seed's policy, or of every seed's that was not given up."""
    if episodes < 1:
        raise InputError(f"episodes must be at least 1, not {episodes}.")
    _check_episode_seed(episode_seed)
    config = env_of(run)
    stopped = stopped_seeds(run)
    seeds = [own for own in seeds_of(run) if own not in stopped] if seed is None else [seed]
    if not seeds:
        raise InputError(f"All seeds of {run} were stopped for numbers that were not finite.")
    policies = [load_policy(run, chosen) for chosen in seeds]
    spec, _ = probe(config)
    for policy in policies:
        _check_size(run, policy, config, spec)
    reset_seeds = list(range(episode_seed, episode_seed + episodes))
    evaluator = Evaluator(config, min(len(seeds), usable_cores()))
    try:
        futures = [evaluator.submit(policy.arrays, reset_seeds) for policy in policies]
        results = [future.result() for future in futures]
    finally:
        evaluator.close()
    for result in results:
        if not result.episodes:
            raise RunError(result.faults[-1])
    return [
        {"seed": chosen} | summed_up(done.episodes)
        for chosen, done in zip(seeds, results, strict=True)
    ]


def record_run(
    run: str | Path, out: str | Path, seed: int = 0, episode_seed: int = 0
) -> tuple[Path, float, int]:
    """One deterministic episode as a video; returns the file, the return and the length."""
    path = Path(out)
    if path.suffix.lower() not in (".mp4", ".gif"):
        raise InputError(f"{out}: the file name must end in .mp4 or .gif.")
    _check_episode_seed(episode_seed)
    policy = load_policy(run, seed)
    make_parent(path)
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # renders without a screen
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise InputError('Recording needs more: pip install "lfiw[video]".') from None
    config = env_of(run)
    env = make_env(config, render_mode="rgb_array")
    frames: list[Any] = []
    total_reward, ended = 0.0, False
    try:
        spec, _ = check_spaces(env, config.id)
        _check_size(run, policy, config, spec)
        obs, _ = env.reset(seed=episode_seed)
        frames.append(_frame(env))
        while not ended and len(frames) < MAX_RECORDED_STEPS:
            action, _ = policy.predict(obs)
            obs, reward, terminated, truncated, _ = env.step(action)
            total_reward += float(reward)
            ended = terminated or truncated
            frames.append(_frame(env))
        fps = env.metadata.get("render_fps", 30)
    except InputError:
        raise
    except Exception as error:
        raise RunError(
            f"{config.id} failed in step {len(frames)}: {type(error).__name__}: "
            f"{one_line(str(error))}"
        ) from error
    finally:
        env.close()
    options = {"fps": fps, "macro_block_size": 2}
    if path.suffix.lower() == ".gif":
        options = {"duration": 1000 / fps}
    imageio.mimsave(path, frames, **options)
    return path, total_reward, len(frames) - 1


def _check_size(run: str | Path, policy: Policy, config: EnvConfig, spec: EnvSpec) -> None:
    if policy.network.obs_size != spec.obs_size:
        raise InputError(
            f"The policies of {run} take observations of size {policy.network.obs_size}, but "
            f"{config.id} now gives {spec.obs_size}."
        )


def _check_episode_seed(seed: int) -> None:
    if seed < 0:
        raise InputError(f"The seed of an episode must be at least 0, not {seed}.")


def _frame(env: Any) -> np.ndarray:
    try:
        frame = env.render()
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"The environment cannot render here: {reason} (without a screen, MuJoCo needs "
            f"the system's EGL or OSMesa library and MUJOCO_GL=egl or osmesa)."
        ) from None
    if not isinstance(frame, np.ndarray):
        raise InputError("The environment has no rgb_array rendering.")
    return frame
