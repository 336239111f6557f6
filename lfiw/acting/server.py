"""What a worker does: the environments that it holds, and its methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lfiw.acting.envs import Watched, make_env
from lfiw.acting.episodes import Episode, Evaluated, run_episodes
from lfiw.acting.faults import Faults, describe
from lfiw.acting.policy import ActionScale
from lfiw.acting.rollout import Collected, EnvRunner, RunnerState, close_quietly, no_beat
from lfiw.acting.spaces import check_spaces, probe_env
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.types import EnvSpec


class EnvServer:
    """What a worker process holds: the environments of some runs and one to evaluate in."""

    def __init__(self, config: EnvConfig, beat: Callable[[], None] = no_beat) -> None:
        self.config = config
        self._beat = beat
        self.runners: dict[int, EnvRunner] = {}
        self._eval_env: Watched | None = None

    def probe(self) -> tuple[EnvSpec, ActionScale]:
        return probe_env(self.config)

    def open(
        self, seeds: Mapping[int, int], env_steps: int = 0, attempt: int = 0
    ) -> dict[int, RunnerState]:
        """Start the environments of the given runs (run index -> seed)."""
        for run, seed in seeds.items():
            self.runners[run] = EnvRunner(self.config, seed, env_steps, attempt, self._beat)
        return {run: self.runners[run].state() for run in seeds}

    def collect(
        self, policies: Mapping[int, Mapping[str, np.ndarray] | None], count: int
    ) -> dict[int, Collected]:
        return {run: self.runners[run].collect(arrays, count) for run, arrays in policies.items()}

    def restore(
        self, states: Mapping[int, RunnerState], allow_inexact: bool
    ) -> dict[int, RunnerState]:
        for run, state in states.items():
            self.runners[run].restore(state, allow_inexact)
        return {run: self.runners[run].state() for run in states}

    def evaluate(self, arrays: Mapping[str, np.ndarray], seeds: Sequence[int]) -> Evaluated:
        """An episode for each seed; one that fails is repeated in a new environment."""
        episodes: list[Episode] = []
        faults = Faults(self.config)
        while len(episodes) < len(seeds):
            try:
                episodes += self._evaluate_once(arrays, seeds[len(episodes)])
            except InputError:
                raise
            except Exception as error:
                faults.add(describe(error))
                self._close_eval_env()
        return Evaluated(episodes, faults.reasons)

    def _evaluate_once(self, arrays: Mapping[str, np.ndarray], seed: int) -> list[Episode]:
        if self._eval_env is None:
            self._eval_env = Watched(make_env(self.config), self._beat)
        _, scale = check_spaces(self._eval_env, self.config.id)
        return run_episodes(self._eval_env, scale, arrays, [seed], self.config.id)

    def _close_eval_env(self) -> None:
        if self._eval_env is not None:
            close_quietly(self._eval_env)
            self._eval_env = None

    def close(self) -> None:
        for runner in self.runners.values():
            close_quietly(runner.env)
        self._close_eval_env()
