"""One episode of a trained policy as a video."""

from __future__ import annotations

import base64
import os
import sys
import warnings
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lfiw.acting.envs import make_env
from lfiw.acting.running import refuse_running_statistics
from lfiw.acting.spaces import check_spaces
from lfiw.errors import InputError, RunError
from lfiw.extras import install_command
from lfiw.runs.files import make_parent
from lfiw.runs.layout import folder_of
from lfiw.runs.policies import Which, check_episode_seed, check_fits, load_policy
from lfiw.runs.trust import env_of
from lfiw.settings import conform
from lfiw.wording import one_line

MAX_RECORDED_STEPS = 10_000


class Recording(NamedTuple):
    """A video of one episode."""

    path: Path
    total_reward: float
    length: int  # steps of the episode, one less than the video's frames

    def _repr_html_(self) -> str:
        """What a notebook shows, and keeps: the video itself."""
        content = base64.b64encode(self.path.read_bytes()).decode()
        if self.path.suffix.lower() == ".gif":
            return f'<img alt="An episode" src="data:image/gif;base64,{content}">'
        return f'<video controls autoplay loop muted src="data:video/mp4;base64,{content}"></video>'


def record(
    folder: str | PathLike[str],
    out: str | PathLike[str] = "episode.mp4",
    seed: int = 0,
    episode_seed: int = 0,
    which: Which = "latest",
    trust_env: bool = False,
) -> Recording:
    """One deterministic episode as a video, without a screen.

    Args:
        folder: A method folder, or what `lfiw.train` returned.
        out: The video; its name ends in .mp4 or .gif.
        seed: The training seed whose policy acts.
        episode_seed: The seed of the episode's reset.
        which: `"latest"`, or `"best"` for the policy that was evaluated best in training.
        trust_env: Make the environment of a folder that somebody else may have made.

    >>> lfiw.record(training, "episode.mp4", seed=1).total_reward
    """
    folder, path = folder_of(folder), Path(out)
    seed = conform("seed", seed, int)
    episode_seed = conform("episode_seed", episode_seed, int)
    if path.suffix.lower() not in (".mp4", ".gif"):
        raise InputError(f"{out}: the file name must end in .mp4 or .gif.")
    check_episode_seed(episode_seed)
    policy = load_policy(folder, seed, which)
    make_parent(path)
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        # Both render without a screen.
        os.environ.setdefault("MUJOCO_GL", "egl")
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise InputError(f"Recording needs more: {install_command('video')}") from None
    config = env_of(folder, trust_env)
    env = make_env(config, render_mode="rgb_array")
    frames: list[Any] = []
    total_reward, ended = 0.0, False
    try:
        spec, scale = check_spaces(env, config.id)
        check_fits(policy, folder, config.id, spec)
        refuse_running_statistics(env, config.id, scale)
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
    with warnings.catch_warnings():  # of jax, about a fork: ffmpeg is executed at once
        warnings.simplefilter("ignore", RuntimeWarning)
        imageio.mimsave(path, frames, **options)
    return Recording(path, total_reward, len(frames) - 1)


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
