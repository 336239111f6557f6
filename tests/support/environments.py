"""Small environments with known answers, and broken ones; made as `environments:make_x`."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from threadpoolctl import threadpool_info

Step = tuple[Any, float, bool, bool, dict[str, Any]]
FOR_EVER = 10**9  # seconds


def box(size: int, limit: float = np.inf) -> spaces.Box:
    return spaces.Box(-limit, limit, (size,), np.float32)


class Probe(gymnasium.Env[Any, Any]):
    """Episodes of `length` steps that end by termination or, else, by a time limit."""

    obs_size = 1
    action_space: spaces.Space[Any] = box(1, 1.0)

    def __init__(self, length: int = 1, terminates: bool = True) -> None:
        self.observation_space = box(self.obs_size)
        self.length, self.terminates = length, terminates
        self.time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        self.start(seed)
        return self.observe(), {}

    def step(self, action: Any) -> Step:
        reward = self.act(np.asarray(action))
        self.time += 1
        ended = self.time >= self.length
        return self.observe(), reward, ended and self.terminates, ended and not self.terminates, {}

    def start(self, seed: int | None) -> None:
        pass

    def act(self, action: np.ndarray) -> float:
        return 1.0

    def observe(self) -> Any:
        return np.zeros(self.obs_size, np.float32)


class Forever(Probe):
    """Reward 1 in a single state."""

    obs_size = 3  # the probes with known values have one shape, hence one compiled program


class Countdown(Probe):
    """Reward 1 in each of `length` states, told apart by a one-hot observation."""

    def __init__(self, length: int = 3, terminates: bool = True) -> None:
        self.obs_size = length
        super().__init__(length, terminates)

    def observe(self) -> Any:
        return np.eye(self.length + 1, self.length, dtype=np.float32)[self.time]


class Bandit(Probe):
    """One step; the reward 1 - (action - best)^2 is largest, 1, at the action `best`. The
    observation says nothing: zeros, or noise of a standard deviation `spread`."""

    obs_size = 3

    def __init__(self, best: float = 0.5, spread: float = 0.0) -> None:
        super().__init__(1)
        self.best, self.spread = best, spread

    def observe(self) -> Any:
        return (self.spread * self.np_random.standard_normal(self.obs_size)).astype(np.float32)

    def act(self, action: np.ndarray) -> float:
        return 1.0 - float(action[0] - self.best) ** 2


class Delayed(Probe):
    """The bandit's reward comes one step after the action that earns it."""

    obs_size = 3

    def __init__(self, best: float = 0.5) -> None:
        super().__init__(2)
        self.best = best
        self.first_action = 0.0

    def start(self, seed: int | None) -> None:
        self.first_action = 0.0

    def act(self, action: np.ndarray) -> float:
        if self.time == 0:
            self.first_action = float(action[0])
            return 0.0
        return 1.0 - (self.first_action - self.best) ** 2

    def observe(self) -> Any:
        return np.array([self.time == 1, self.time == 2, self.first_action], np.float32)


class Diary(Probe):
    """Observes (episode, time, reset seed modulo 1009); the reward is the time of the step."""

    obs_size = 3
    episode = -1
    seed_mark = 0

    def start(self, seed: int | None) -> None:
        self.episode += 1
        self.seed_mark = -1 if seed is None else seed % 1009

    def act(self, action: np.ndarray) -> float:
        return float(self.time)

    def observe(self) -> Any:
        return np.array([self.episode, self.time, self.seed_mark], np.float32)


class Rewriting(Diary):
    """A diary that returns one and the same array and writes the next observation into it."""

    def __init__(self, length: int) -> None:
        super().__init__(length, terminates=False)
        self.page = np.zeros(self.obs_size, np.float32)

    def observe(self) -> Any:
        self.page[:] = super().observe()
        return self.page


class Echo(Probe):
    """Observes the action that it was given; its bounds are not symmetric."""

    obs_size = 2
    action_space = spaces.Box(np.float32([-3, 10]), np.float32([1, 30]))

    def __init__(self, length: int = 5) -> None:
        super().__init__(length, terminates=False)
        self.last = np.zeros(2, np.float32)

    def start(self, seed: int | None) -> None:
        self.last = np.zeros(2, np.float32)

    def act(self, action: np.ndarray) -> float:
        self.last = np.array(action, np.float32)
        return 0.0

    def observe(self) -> Any:
        return self.last


class Report(Probe):
    """Observes the process it runs in: its id, whether jax is imported, its BLAS threads."""

    obs_size = 3

    def observe(self) -> Any:
        threads = max(pool["num_threads"] for pool in threadpool_info())
        return np.array([os.getpid(), "jax" in sys.modules, threads], np.float32)


class Point(Probe):
    """Reach the origin: the action moves a point, each step costs its distance.

    The best policy needs at most 7 steps from anywhere and then pays nothing.
    """

    obs_size = 2
    action_space = box(2, 1.0)
    step_size = 0.2
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, length: int = 30, render_mode: str | None = None) -> None:
        super().__init__(length, terminates=False)
        self.render_mode = render_mode
        self.position = np.zeros(2)

    def start(self, seed: int | None) -> None:
        self.position = self.np_random.uniform(-1, 1, 2)

    def act(self, action: np.ndarray) -> float:
        self.position = np.clip(self.position + self.step_size * action, -1.5, 1.5)
        return -float(np.linalg.norm(self.position))

    def observe(self) -> Any:
        return self.position.astype(np.float32)

    def render(self) -> Any:
        picture = np.full((64, 64, 3), 255, np.uint8)
        row, column = (32 + self.position * 20).astype(int)
        picture[row - 2 : row + 3, column - 2 : column + 3] = 0
        return picture


class Scaled(Point):
    """A point whose coordinates are observed in other units."""

    def __init__(self, scale: tuple[float, float]) -> None:
        super().__init__()
        self.scale = np.array(scale, np.float32)

    def observe(self) -> Any:
        return super().observe() * self.scale


class Alternating(Probe):
    """Observes 1 and -1 in turn, in episodes of ten steps: mean 0 and variance 1 after every even
    number of steps. The reward is largest for an action of the observation's sign."""

    def __init__(self) -> None:
        super().__init__(10)

    def act(self, action: np.ndarray) -> float:
        return float(action[0] * self.observe()[0])

    def observe(self) -> Any:
        return np.array([1 - 2 * (self.time % 2)], np.float32)


class Faulty(Diary):
    """At step `at` of its life, counted from 1, something is wrong with `fault`. One that hangs
    leaves a file with the number of its process in the folder `told`."""

    steps = 0

    def __init__(self, fault: str, at: int, value: float, told: str | None) -> None:
        super().__init__(length=3, terminates=False)
        self.fault, self.at, self.value = fault, at, value
        self.told = told and Path(told)

    def _faulty(self, fault: str) -> bool:
        return self.fault == fault and self.steps == self.at

    def start(self, seed: int | None) -> None:
        super().start(seed)
        if self._faulty("reset raises"):
            raise RuntimeError("the start button is stuck")

    def act(self, action: np.ndarray) -> float:
        self.steps += 1
        if self.told and (self._faulty("hang") or self._faulty("hang in C")):
            (self.told / str(os.getpid())).touch()
        if self._faulty("hang"):
            time.sleep(FOR_EVER)
        if self._faulty("hang in C"):
            ctypes.PyDLL(None).sleep(FOR_EVER)  # holds Python's lock: no other thread can run
        if self._faulty("exit"):
            os._exit(7)
        if self._faulty("raise"):
            raise RuntimeError("the left wheel came off")
        if not np.all(np.isfinite(action)):
            raise RuntimeError("the motors cannot take that")
        return self.value if self._faulty("reward") else 1.0

    def observe(self) -> Any:
        obs = super().observe()
        if self._faulty("obs"):
            obs[1] = self.value
        if self._faulty("shape"):
            return obs[:1]
        return obs


class Poisoned(Point):
    """After the reset with the seed `poison` a point pays more than float32 can square."""

    def __init__(self, poison: int | None, length: int) -> None:
        super().__init__(length)
        self.poison, self.poisoned = poison, False

    def start(self, seed: int | None) -> None:
        super().start(seed)
        self.poisoned = seed is not None and seed == self.poison

    def act(self, action: np.ndarray) -> float:
        reward = super().act(action)
        return 3e38 if self.poisoned else reward


class Breaking(Point):
    """At step `at` of its life the fuse blows, and all environments fail while the file is empty;
    a fuse that was mended holds."""

    steps = 0

    def __init__(self, fuse: str | None, at: int) -> None:
        super().__init__()
        self.fuse, self.at = fuse and Path(fuse), at

    def act(self, action: np.ndarray) -> float:
        self.steps += 1
        if self.fuse and self.steps == self.at:
            self.fuse.touch()
        if self.fuse and self.fuse.exists() and not self.fuse.read_text():
            raise RuntimeError("no power")
        return super().act(action)


class Gated(Point):
    """Waits while there is a file `gate`, and says so by another one; not in its first steps, in
    which it is tried."""

    steps = 0

    def __init__(self, gate: str | None) -> None:
        super().__init__()
        self.gate = gate and Path(gate)

    def act(self, action: np.ndarray) -> float:
        self.steps += 1
        while self.steps > 50 and self.gate and self.gate.exists():
            self.gate.with_suffix(".reached").touch()
            time.sleep(0.01)
        return super().act(action)


class Raising(Probe):
    """Shows a picture, and raises in its third step."""

    def act(self, action: np.ndarray) -> float:
        if self.time == 2:
            raise RuntimeError("boom")
        return 1.0

    def render(self) -> Any:
        return np.zeros((8, 8, 3), np.uint8)


class Exploding(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A MuJoCo environment thrown out of its range at step `at` of every episode."""

    def __init__(self, env: gymnasium.Env[Any, Any], at: int) -> None:
        super().__init__(env)
        self.at, self.time = at, 0

    def reset(self, **options: Any) -> Any:
        self.time = 0
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        self.time += 1
        if self.time == self.at:
            self.env.unwrapped.data.qvel[:] = 1e12  # type: ignore[attr-defined]
        return self.env.step(action)


class Slow(Diary):
    """Takes its time for every step."""

    def __init__(self, seconds: float, length: int) -> None:
        super().__init__(length, terminates=False)
        self.seconds = seconds

    def act(self, action: np.ndarray) -> float:
        time.sleep(self.seconds)
        return super().act(action)


class Flaky(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Fails by chance, in a step or in a reset, each way with a probability of its own; not in
    its first calls, since an environment that fails when it is tried is not trained on."""

    spared = 10
    calls = 0

    def __init__(
        self, env: gymnasium.Env[Any, Any], chances: dict[str, float], stall_log: str | None
    ) -> None:
        super().__init__(env)
        self.stall_log = stall_log
        self.chances = {
            "step raises": 0.0,
            "reset raises": 0.0,
            "stalls": 0.0,
            "hangs": 0.0,
            "dies": 0.0,
        } | chances
        # Not from the seeds of the episodes: a repeated episode must not fail again.
        self.luck = np.random.default_rng()

    def _happens(self, fault: str) -> bool:
        return self.calls > self.spared and bool(self.luck.random() < self.chances[fault])

    def _stall(self, seconds: float) -> None:
        time.sleep(seconds)
        if self.stall_log:
            with Path(self.stall_log).open("a") as file:
                file.write(f"{seconds}\n")

    def reset(self, **options: Any) -> Any:
        self.calls += 1
        if self._happens("reset raises"):
            raise RuntimeError("the start button is stuck")
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        self.calls += 1
        if self._happens("step raises"):
            raise RuntimeError("the left wheel came off")
        if self._happens("stalls"):
            self._stall(self.luck.uniform(2, 5))
        if self._happens("hangs"):
            time.sleep(FOR_EVER)
        if self._happens("dies"):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.env.step(action)


class Remembering(Probe):
    """Remembers more than its episode. By `what`: its reward is the number of episodes so far, its
    second observation is noise of a generator that no reset seeds, or its episodes are half as
    long once it is `age` steps old."""

    obs_size = 2
    age = 9
    noise = 0.0
    episodes = steps = 0

    def __init__(self, what: str, length: int) -> None:
        super().__init__(length)
        self.what, self.whole_length = what, length
        self.private = np.random.default_rng(0)

    def start(self, seed: int | None) -> None:
        self.episodes += 1

    def act(self, action: np.ndarray) -> float:
        self.steps += 1
        self.noise = self.private.random() if self.what == "noise" and self.time == 0 else 0.0
        if self.what == "end" and self.steps > self.age:
            self.length = self.whole_length // 2
        return float(self.episodes) if self.what == "reward" else 1.0

    def observe(self) -> Any:
        return np.array([self.time, self.noise], np.float32)


class Centred(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Subtracts the mean of all observations so far, or of those of the episode."""

    def __init__(self, env: gymnasium.Env[Any, Any], by_episode: bool) -> None:
        super().__init__(env)
        self.by_episode = by_episode
        self.mean, self.seen = np.zeros(2, np.float32), 0

    def reset(self, **options: Any) -> Any:
        if self.by_episode:
            self.mean, self.seen = np.zeros(2, np.float32), 0
        return super().reset(**options)

    def observation(self, observation: Any) -> Any:
        self.seen += 1
        self.mean = self.mean + (observation - self.mean) / self.seen
        return observation - self.mean


class Vectorised(Probe):
    """One environment of a vector whose wrapper normalises."""

    obs_size = 2
    action_space = box(2, 1.0)

    def __init__(self) -> None:
        super().__init__(30, terminates=False)
        self.inner = gymnasium.wrappers.vector.NormalizeObservation(
            gymnasium.vector.SyncVectorEnv([Point])
        )

    def start(self, seed: int | None) -> None:
        self.obs = self.inner.reset(seed=seed)[0][0]

    def act(self, action: np.ndarray) -> float:
        obs, reward, *_ = self.inner.step(action[None])
        self.obs = obs[0]
        return float(reward[0])

    def observe(self) -> Any:
        return np.asarray(self.obs, np.float32)


class Misfit(Probe):
    """Has the spaces, and returns the values, that it was given."""

    def __init__(self, obs_space: Any, action_space: Any, obs: Any, step: Any = None) -> None:
        super().__init__()
        self.observation_space, self.action_space = obs_space, action_space
        self.obs, self.step_result = obs, step

    def observe(self) -> Any:
        return self.obs

    def step(self, action: Any) -> Any:
        return super().step(action) if self.step_result is None else self.step_result


def make_forever(length: int = 5, terminates: bool = False) -> Probe:
    return Forever(length, terminates)


def make_countdown(length: int = 3, terminates: bool = True) -> Probe:
    return Countdown(length, terminates)


def make_bandit(best: float = 0.5, spread: float = 0.0) -> Probe:
    return Bandit(best, spread)


def make_delayed(best: float = 0.5) -> Probe:
    return Delayed(best)


def make_diary(length: int = 4, terminates: bool = False) -> Probe:
    return Diary(length, terminates)


def make_endless_diary() -> Probe:
    """Without any end of its own."""
    return Diary(10**9)


def make_rewriting(length: int = 4) -> Probe:
    return Rewriting(length)


def make_echo(length: int = 5) -> Probe:
    return Echo(length)


def make_report() -> Probe:
    return Report(4)


def make_point(length: int = 30, render_mode: str | None = None) -> Probe:
    return Point(length, render_mode)


def make_faulty(
    fault: str = "obs", at: int = 5, value: float = np.nan, told: str | None = None
) -> Probe:
    return Faulty(fault, at, float(value), told)


def make_raising(render_mode: str | None = None) -> Probe:
    return Raising(length=9)


def make_spanned(span: Any) -> Probe:
    if not isinstance(span, tuple):
        raise TypeError(f"span must be a tuple, not {span!r}")
    return Probe()


def make_wrapped(
    names: str = "", fixed: bool = False, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """A point in wrappers of Gymnasium, the first of them outermost; `fixed`: whose statistics
    stand still."""
    env: Any = Point(render_mode=render_mode)
    arguments: dict[str, tuple[Any, ...]] = {
        "TransformReward": (lambda reward: 0.1 * reward,),
        "RescaleAction": (-1.0, 1.0),
        "DelayObservation": (2,),
        "TimeLimit": (20,),
    }
    for name in reversed(names.split()):
        env = getattr(gymnasium.wrappers, name)(env, *arguments.get(name, ()))
        if fixed:
            env.update_running_mean = False
    return env


def make_centred(by_episode: bool = False) -> gymnasium.Env[Any, Any]:
    return Centred(Point(), by_episode)


def make_vectorised() -> Probe:
    return Vectorised()


def make_scaled(scale: tuple[float, float] = (1.0, 1.0)) -> Probe:
    return Scaled(scale)


def make_alternating() -> Probe:
    return Alternating()


def make_remembering(what: str = "nothing", length: int = 4) -> Probe:
    return Remembering(what, length)


def make_poisoned(poison: int | None = None, length: int = 30) -> Probe:
    return Poisoned(poison, length)


def make_breaking(fuse: str | None = None, at: int = 350) -> Probe:
    return Breaking(fuse, at)


def make_gated(gate: str | None = None) -> Probe:
    return Gated(gate)


def make_exploding(at: int = 5) -> gymnasium.Env[Any, Any]:
    return Exploding(gymnasium.make("HalfCheetah-v5"), at)


def make_slow(seconds: float, length: int = 4) -> Probe:
    return Slow(seconds, length)


def make_flaky(
    length: int = 50, stall_log: str | None = None, **chances: float
) -> gymnasium.Env[Any, Any]:
    """A diary that fails by chance (step_raises=1e-4 ...)."""
    named = {name.replace("_", " "): chance for name, chance in chances.items()}
    return Flaky(Diary(length, terminates=False), named, stall_log)


def make_four_values() -> Probe:
    """The step of the old gym."""
    return Misfit(box(1), box(1, 1.0), np.zeros(1), (np.zeros(1), 0.0, False, {}))


def make_old_reset() -> Probe:
    """The reset of the old gym."""

    class OldReset(Forever):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return np.zeros(3)

    return OldReset(5)


def make_dict_obs() -> Probe:
    return Misfit(spaces.Dict({"place": box(1)}), box(1, 1.0), {"place": np.zeros(1)})


def make_image_obs() -> Probe:
    image = np.zeros((8, 8, 3), np.uint8)
    return Misfit(spaces.Box(0, 255, image.shape, np.uint8), box(1, 1.0), image)


def make_discrete_action() -> Probe:
    return Misfit(box(1), spaces.Discrete(3), np.zeros(1))


def make_integer_action() -> Probe:
    return Misfit(box(1), spaces.Box(0, 9, (1,), np.int64), np.zeros(1))


def make_matrix_action() -> Probe:
    return Misfit(box(1), spaces.Box(-1, 1, (2, 2)), np.zeros(1))


def make_unbounded_action() -> Probe:
    return Misfit(box(1), box(1), np.zeros(1))


def make_half_bounded_action() -> Probe:
    return Misfit(box(1), spaces.Box(0, np.inf, (1,)), np.zeros(1))


def make_huge_action() -> Probe:
    return Misfit(box(1), box(1, float(np.finfo(np.float32).max)), np.zeros(1))


def make_empty_action() -> Probe:
    return Misfit(box(1), spaces.Box(1, 1, (1,)), np.zeros(1))


def make_wrong_shape() -> Probe:
    return Misfit(box(3), box(1, 1.0), np.zeros(2))


def make_vector_reward() -> Probe:
    return Misfit(box(1), box(1, 1.0), np.zeros(1), (np.zeros(1), np.ones(3), False, False, {}))


def make_reward_of_one() -> Probe:
    return Misfit(box(1), box(1, 1.0), np.zeros(1), (np.zeros(1), np.ones(1), False, False, {}))


class Lander(Probe):
    """Has either kind of actions, as LunarLander does."""

    def __init__(self, continuous: bool = False) -> None:
        super().__init__()
        self.action_space = box(1, 1.0) if continuous else spaces.Discrete(4)


def make_broken() -> Probe:
    raise RuntimeError("the cable\nis loose")


def make_broken_inside() -> Probe:
    """What raises is a library's; the line that called it is here."""
    np.zeros(3).reshape(2, 2)
    return Probe()


def make_no_env() -> Any:
    return "not an environment"


UNSUPPORTED = {
    "make_four_values": "must return 5 values",
    "make_old_reset": "must return (observation, info)",
    "make_dict_obs": "only a 1-D Box is supported",
    "make_image_obs": "only a 1-D Box is supported",
    "make_discrete_action": "only a 1-D Box is supported",
    "make_matrix_action": "only a 1-D Box is supported",
    "make_integer_action": "floats are needed",
    "make_unbounded_action": "unbounded actions",
    "make_half_bounded_action": "unbounded actions",
    "make_empty_action": "empty range of actions",
    "make_wrong_shape": "observation of shape (2,) where its space says (3,)",
    "make_vector_reward": "reward of shape (3,), not a number",
    "make_reward_of_one": "reward of shape (1,), not a number",
    "make_broken": "could not be made: RuntimeError: the cable is loose (environments.py:",
    "make_broken_inside": "into shape (2,2) (environments.py:",
    "make_no_env": "made a str, not a gymnasium.Env",
}
