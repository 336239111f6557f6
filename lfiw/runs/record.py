"""One episode of a trained policy as a video."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lfiw.acting.envs import make_env
from lfiw.acting.spaces import check_spaces
from lfiw.errors import InputError, RunError
from lfiw.runs.files import make_parent
from lfiw.runs.policies import check_episode_seed, check_fits, env_of, load_policy
from lfiw.wording import one_line

MAX_RECORDED_STEPS = 10_000


def record_run(
    folder: str | Path, out: str | Path, seed: int = 0, episode_seed: int = 0
) -> tuple[Path, float, int]:
    """One deterministic episode as a video; returns the file, the return and the length."""
    path = Path(out)
    if path.suffix.lower() not in (".mp4", ".gif"):
        raise InputError(f"{out}: the file name must end in .mp4 or .gif.")
    check_episode_seed(episode_seed)
    policy = load_policy(folder, seed)
    make_parent(path)
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # renders without a screen
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise InputError('Recording needs more: pip install "lfiw[video]".') from None
    config = env_of(folder)
    env = make_env(config, render_mode="rgb_array")
    frames: list[Any] = []
    total_reward, ended = 0.0, False
    try:
        spec, _ = check_spaces(env, config.id)
        check_fits(policy, folder, config.id, spec)
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
