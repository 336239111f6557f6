"""Stepping environments with a numpy policy."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from lfiw.acting.envs import Watched, make_env
from lfiw.acting.episodes import Episode
from lfiw.acting.faults import Faults, SimulatorReset, describe
from lfiw.acting.noise import draw_noise, held_facts, held_of, nothing_held
from lfiw.acting.policy import NumpyPolicy
from lfiw.acting.spaces import check_spaces
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError
from lfiw.types import row_columns
from lfiw.wording import option

# Streams of random numbers of a run, apart from each other by construction.
ACTION_STREAM, RESET_STREAM, EVAL_STREAM = 0, 1, 2


class RunnerState(NamedTuple):
    """All that an exact restart of a run's environment needs."""

    facts: dict[str, Any]  # generators, counters, the episodes' seeds and hashes, as JSON
    actions: np.ndarray  # [t, A] of the episode so far
    obs: np.ndarray  # [D] the observation that they led to
    ended_actions: np.ndarray | None = None  # [t, A] of the last episode that ended


class Collected(NamedTuple):
    rows: np.ndarray  # [n, row_size] packed transitions
    episodes: list[Episode]  # those that ended within these steps
    state: RunnerState  # after them
    faults: list[str]  # each cost the episode that it fell into


def stream(seed: int, *purpose: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, *purpose]))


def no_beat() -> None:
    """The sign of life of an environment that nobody waits for."""


def close_quietly(env: gymnasium.Env[Any, Any]) -> None:
    """One that failed may fail here too."""
    with contextlib.suppress(Exception):
        env.close()


class EnvRunner:
    """The training environment of one run.

    Every episode starts from a seed drawn by the run, so that an episode can be replayed
    from that seed and its actions alone. An environment that fails costs the episode that it
    was in: the next one starts in a new environment, and no transition joins the two.
    """

    def __init__(
        self,
        config: EnvConfig,
        seed: int,
        env_steps: int = 0,
        attempt: int = 0,
        beat: Callable[[], None] = no_beat,
    ) -> None:
        """`attempt`: counted from 1 where an environment was lost at `env_steps` together with
        its random streams; each attempt has others."""
        self.config = config
        self.name = config.id
        self._beat = beat
        self.env = Watched(make_env(config), beat)
        self.spec, self.scale = check_spaces(self.env, config.id)
        self.columns = row_columns(self.spec)
        again = (env_steps, attempt) if attempt else ()
        self.action_rng = stream(seed, ACTION_STREAM, *again)
        self.reset_rng = stream(seed, RESET_STREAM, *again)
        self.held = nothing_held(self.spec.action_size)  # exploration noise
        self.env_steps = env_steps
        # The last episode that ended: seed and hash, and its actions.
        self.ended: dict[str, Any] | None = None
        self.ended_actions: np.ndarray | None = None
        self._start_episode(Faults(config))

    def _start_episode(self, faults: Faults) -> None:
        while True:
            try:
                return self._reset()
            except InputError:
                raise
            except Exception as error:
                faults.add(describe(error))
                self._replace_env()

    def _cut_episode(self, error: Exception, faults: Faults) -> None:
        """End the episode before the step that failed, whose row is written anew."""
        faults.add(describe(error))
        if not isinstance(error, SimulatorReset):
            self._replace_env()
        self._start_episode(faults)

    def _replace_env(self) -> None:
        close_quietly(self.env)
        self.env = Watched(make_env(self.config), self._beat)

    def _reset(self) -> None:
        self._reset_to(int(self.reset_rng.integers(2**31)))

    def _reset_to(self, episode_seed: int) -> None:
        self.episode_seed = episode_seed
        obs, _ = self.env.reset(seed=episode_seed)
        self._refuse_other_shape(obs)
        self.obs = np.array(obs, np.float32)
        if not np.isfinite(self.obs).all():
            raise InputError(
                f"{self.name} was reset to a non-finite obs at environment step {self.env_steps}."
            )
        self.total_reward, self.length = 0.0, 0
        # Of this episode, to replay it after a restart and to know that it was the same.
        self.actions = np.zeros((0, self.spec.action_size), np.float32)
        self._hash = hashlib.sha256()

    def collect(self, arrays: Mapping[str, np.ndarray] | None, count: int) -> Collected:
        """Take `count` steps with the policy, or with uniform actions where it is None."""
        if arrays is None:
            shape = (count, self.spec.action_size)
            actions = self.action_rng.uniform(-1, 1, shape).astype(np.float32)
        else:
            policy = NumpyPolicy(arrays)
            most = int(arrays.get("noise_repeats", 1))
            noise, self.held = draw_noise(self.action_rng, count, most, self.held)
        rows = np.empty((count, self.spec.row_size), np.float32)
        episodes: list[Episode] = []
        faults = Faults(self.config)
        taken = begun = 0  # rows that are filled, and those before the episode
        while taken < count:
            action = actions[taken] if arrays is None else policy.act(self.obs, noise[taken])
            try:
                ended = self._step(action, rows[taken])
            except InputError:
                raise
            except Exception as error:
                self._cut_episode(error, faults)
                begun = taken
                continue
            taken += 1
            if ended:
                episodes.append(Episode(self.total_reward, self.length))
                self._remember(rows[begun:taken])
                self._remember_ended()
                self._start_episode(faults)
                begun = taken
        self._remember(rows[begun:])
        return Collected(rows, episodes, self.state(), faults.reasons)

    def _remember(self, rows: np.ndarray) -> None:
        """Add rows to what is known of the episode."""
        self.actions = np.concatenate([self.actions, rows[:, self.columns.action]])
        self._hash.update(rows.tobytes())

    def _remember_ended(self) -> None:
        self.ended = {"episode_seed": self.episode_seed, "sha256": self._hash.hexdigest()}
        self.ended_actions = self.actions

    def _step(self, action: np.ndarray, row: np.ndarray) -> bool:
        """Fill one row; whether the episode ended with it."""
        obs, reward, terminated, truncated, _ = self.env.step(self.scale.to_env(action))
        self.env_steps += 1
        self._refuse_other_shape(obs)
        columns = self.columns
        row[columns.obs] = self.obs
        row[columns.action] = action
        row[columns.reward] = reward
        row[columns.discount] = 0.0 if terminated else 1.0
        row[columns.next_obs] = obs
        if not math.isfinite(row.sum()):
            self._refuse_non_finite(row)
        self.obs = row[columns.next_obs].copy()
        self.total_reward += float(reward)
        self.length += 1
        return bool(terminated or truncated)

    def _refuse_non_finite(self, row: np.ndarray) -> None:
        for name, column in self.columns._asdict().items():
            if not np.all(np.isfinite(row[column])):
                raise InputError(
                    f"{self.name} produced a non-finite {name} at environment step "
                    f"{self.env_steps}."
                )

    def _refuse_other_shape(self, obs: Any) -> None:
        if np.shape(obs) != (self.spec.obs_size,):
            raise InputError(
                f"{self.name} returned an observation of shape {np.shape(obs)} where its space "
                f"says {(self.spec.obs_size,)}, at environment step {self.env_steps}."
            )

    def state(self) -> RunnerState:
        return RunnerState(
            facts={
                "action_rng": self.action_rng.bit_generator.state,
                "reset_rng": self.reset_rng.bit_generator.state,
                "held": held_facts(self.held),
                "episode_seed": self.episode_seed,
                "env_steps": self.env_steps,
                "total_reward": self.total_reward,
                "sha256": self._hash.hexdigest(),
                "ended": self.ended,
            },
            actions=self.actions,
            obs=self.obs,
            ended_actions=self.ended_actions,
        )

    def restore(self, state: RunnerState, allow_inexact: bool) -> None:
        """Bring the environment back by replaying its episode from seed and actions. The episode
        that ended before it is replayed too: an environment that remembers more than its episode
        may show it there alone, as where the new one has no step yet."""
        facts = state.facts
        try:
            self.action_rng.bit_generator.state = facts["action_rng"]
            self.reset_rng.bit_generator.state = facts["reset_rng"]
            self.held = held_of(facts.get("held"), self.spec.action_size)
            total_reward, env_steps = float(facts["total_reward"]), int(facts["env_steps"])
            episode = self._known(facts, state.actions)
            ended = facts.get("ended") and self._known(facts["ended"], state.ended_actions)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"The checkpoint does not hold a state of {self.name}: {error}."
            ) from None
        same = True
        if ended:
            over, same = self._replay(*ended)
            same &= over
            self._remember_ended()
        over, same_episode = self._replay(*episode)
        same &= same_episode and not over
        same &= self.total_reward == total_reward and np.array_equal(self.obs, state.obs)
        if not (same or allow_inexact):
            raise InputError(
                f"{self.name} does not repeat itself: its latest episode, replayed, had other "
                f"observations, rewards or another end, so the resumed run would differ "
                f"({option('allow_inexact')} goes on all the same)."
            )
        self.env_steps = env_steps
        if over:
            self._start_episode(Faults(self.config))

    def _known(
        self, facts: Mapping[str, Any], actions: np.ndarray | None
    ) -> tuple[int, np.ndarray, str | None]:
        """What a checkpoint says of an episode: its seed, actions and, unless it is an older
        one, hash."""
        if actions is None or not 0 <= facts["episode_seed"] < 2**31:
            raise ValueError("an episode has no actions or no seed")
        return (
            int(facts["episode_seed"]),
            actions.reshape(-1, self.spec.action_size),
            facts.get("sha256"),
        )

    def _replay(
        self, episode_seed: int, actions: np.ndarray, sha256: str | None
    ) -> tuple[bool, bool]:
        """Whether the episode is over, which leaves out what it had after that, and whether its
        rows are those of the hash."""
        self._reset_to(episode_seed)
        rows = np.empty((len(actions), self.spec.row_size), np.float32)
        over, taken = False, 0
        while taken < len(rows) and not over:
            over = self._step(actions[taken], rows[taken])
            taken += 1
        self._remember(rows[:taken])
        return over, sha256 in (None, self._hash.hexdigest())
