"""Settings for training that takes seconds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

HIDDEN_SIZES = (32,)  # another layer takes a third longer to compile


def small(replay: str, **changes: Any) -> dict[str, Any]:
    """Keyword arguments for `train`, with every part of a strategy at work."""
    settings: dict[str, Any] = {
        "agent.hidden_sizes": HIDDEN_SIZES,
        "env_steps": 600,
        "batch_size": 32,
        "buffer_size": 200,  # wraps around; longer trainings share one program
        "phase_env_steps": 50,
        "random_env_steps": 100,
        "learning_starts": 100,
        "eval_every_env_steps": 200,
        "eval_episodes": 2,
    }
    if replay == "ere":
        settings["replay.min_window"] = 50
    if replay == "lfiw":
        settings["replay.hidden_sizes"] = HIDDEN_SIZES
        settings["replay.fast_size"] = 100
        settings["replay.warmup_env_steps"] = 300
    return settings | changes


def as_options(settings: dict[str, Any]) -> list[str]:
    """The same settings on the command line."""
    options = []
    for name, value in settings.items():
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        options += ["--set", f"{name}={text}"]
    return options


@contextmanager
def compiled_programs_kept_in(folder: Path) -> Iterator[None]:
    """Equal programs are compiled once, though every training compiles its own.

    And for one CPU device only, unless jax has started with more: tests that start the
    command line see them all.
    """
    jax.devices()
    seconds = "jax_persistent_cache_min_compile_time_secs"
    before = {"jax_compilation_cache_dir": jax.config.jax_compilation_cache_dir}
    before[seconds] = getattr(jax.config, seconds)
    try:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update(seconds, 0.0)
        compilation_cache.reset_cache()
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
