"""Replaying episodes brings an environment back; one that does not repeat them is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lfiw
from lfiw.acting.rollout import EnvRunner, RunnerState
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError, RunError
from lfiw.training.resume import resume_all

REFUSED = "environments:make_remembering does not repeat itself"


def runner(what: str, length: int = 4) -> EnvRunner:
    return EnvRunner(
        EnvConfig("environments:make_remembering", {"what": what, "length": length}), 7
    )


def restored(what: str, state: RunnerState, allow_inexact: bool = False, length: int = 4) -> Any:
    other = runner(what, length)
    other.restore(state, allow_inexact)
    return other


@pytest.mark.parametrize("steps", [1, 3, 4, 5, 14, 16, 17])  # within, at and after an end
def test_one_that_forgets_goes_on_at_every_moment(steps: int) -> None:
    first = runner("nothing")
    state = first.collect(None, steps).state
    other = restored("nothing", state)
    expected, found = first.collect(None, 20), other.collect(None, 20)
    np.testing.assert_array_equal(found.rows, expected.rows)
    assert found.episodes == expected.episodes
    assert found.state.facts == expected.state.facts


@pytest.mark.parametrize("what", ["reward", "noise", "end"])
@pytest.mark.parametrize("steps", [15, 16, 18])
def test_memory_across_episodes_is_refused(what: str, steps: int) -> None:
    """After 15 steps the fourth episode has three, after 16 the fifth has none: then the fourth
    tells. One that ages at step 9 ends its third at step 10, and others at 12, 14, 16 and 18."""
    state = runner(what).collect(None, steps).state
    with pytest.raises(InputError, match=REFUSED):
        restored(what, state)


def test_memory_is_seen_where_episodes_have_one_step() -> None:
    state = runner("reward", length=1).collect(None, 5).state
    assert len(state.actions) == 0
    with pytest.raises(InputError, match=REFUSED):
        restored("reward", state, length=1)


def test_an_end_on_the_way_is_refused_or_followed_by_a_new_episode() -> None:
    """Nothing is known of an end before here; the replaying environment ends after two steps."""
    state = runner("nothing").collect(None, 3).state
    old = runner("end")
    old.collect(None, 12)
    with pytest.raises(InputError, match=REFUSED):
        old.restore(state, allow_inexact=False)
    old.restore(state, allow_inexact=True)
    assert (old.length, old.env_steps) == (0, 3)
    rows = old.collect(None, 4).rows
    np.testing.assert_array_equal(rows[:, 0], [0, 1, 0, 1])


def test_a_run_that_went_on_inexactly_can_go_on_exactly_later() -> None:
    """What it knows of its episode is what the environment that it has now gave: three rewards of
    1 were stored, and the fresh environment pays 2 in its second episode."""
    state = runner("nothing").collect(None, 3).state
    other = restored("reward", state, allow_inexact=True)
    assert other.total_reward == 6.0
    third = restored("reward", other.state())
    np.testing.assert_array_equal(third.collect(None, 9).rows, other.collect(None, 9).rows)


def older(state: RunnerState) -> RunnerState:
    """As versions without hashes stored it."""
    facts = {key: value for key, value in state.facts.items() if key not in ("sha256", "ended")}
    return RunnerState(facts, state.actions, state.obs)


def test_older_checkpoints_go_on_and_their_sum_is_compared() -> None:
    first = runner("nothing")
    other = restored("nothing", older(first.collect(None, 15).state))
    np.testing.assert_array_equal(other.collect(None, 9).rows, first.collect(None, 9).rows)
    with pytest.raises(InputError, match=REFUSED):
        restored("reward", older(runner("reward").collect(None, 15).state))


@pytest.mark.parametrize(
    "changes",
    [
        {"ended": {"episode_seed": -1, "sha256": ""}},
        {"ended": {"sha256": ""}},
        {"ended": [1]},
        {"episode_seed": None},
        {"total_reward": "much"},
    ],
)
def test_nonsense_gets_a_sentence(changes: dict[str, Any]) -> None:
    state = runner("nothing").collect(None, 6).state
    with pytest.raises(InputError, match="does not hold a state of environments:make_rememb"):
        restored("nothing", state._replace(facts=state.facts | changes))
    with pytest.raises(InputError, match="does not hold a state"):
        restored("nothing", state._replace(ended_actions=None))


SMALL: dict[str, Any] = {
    **{"learning_starts": 50, "random_env_steps": 50, "batch_size": 16, "env_steps": 102},
    **{"agent.hidden_sizes": (8,), "phase_env_steps": 50, "updates_per_call": 10},
    **{"eval_every_env_steps": 100, "eval_episodes": 1},
}


@pytest.mark.parametrize("what", ["reward", "noise", "end", "nothing"])
def test_a_training_is_not_resumed_to_other_bits(tmp_path: Path, what: str) -> None:
    env = EnvConfig("environments:make_remembering", {"what": what})
    run = lfiw.train(env, "sac", "uniform", out=tmp_path, quiet=True, workers=0, **SMALL).folder
    if what == "nothing":
        resume_all([run], env_steps=120, quiet=True, workers=0)
        return
    with pytest.raises(RunError, match=REFUSED):
        resume_all([run], env_steps=120, quiet=True, workers=0)
    resume_all([run], allow_inexact=True, quiet=True, workers=0)
