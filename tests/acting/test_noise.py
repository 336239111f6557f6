"""How long exploration noise is held, and that it goes on where it was."""

import json
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from lfiw.acting.noise import chances, draw_noise, held_facts, held_of, nothing_held
from lfiw.acting.rollout import EnvRunner
from lfiw.env_config import EnvConfig
from lfiw.errors import InputError

SIZE = 2


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def lengths(noise: np.ndarray) -> list[int]:
    return [len(list(group)) for _, group in groupby(map(tuple, noise))]


def test_chances_by_hand() -> None:
    """Of 1, 2 and 3 steps as 1 to 1/4 to 1/9, which are 36, 9 and 4 of 49."""
    np.testing.assert_allclose(chances(3), [36 / 49, 45 / 49, 1.0], rtol=1e-12)
    np.testing.assert_array_equal(chances(1), [1.0])


def test_noise_that_is_not_held_is_drawn_as_before() -> None:
    noise, held = draw_noise(generator(), 50, 1, nothing_held(SIZE))
    np.testing.assert_array_equal(noise, generator().standard_normal((50, SIZE), np.float32))
    assert held.steps == 0


@pytest.mark.parametrize("most", [2, 16])
def test_lengths_follow_the_formula(most: int) -> None:
    noise, _ = draw_noise(generator(), 60_000, most, nothing_held(SIZE))
    *found, _ = lengths(noise)
    masses = 1 / np.arange(1, most + 1) ** 2
    expected = len(found) * masses / masses.sum()
    counts = np.bincount(found, minlength=most + 1)[1:]
    assert len(counts) == most  # none is longer
    assert chisquare(counts, expected).pvalue > 1e-3


def test_held_noise_is_standard_normal() -> None:
    noise, _ = draw_noise(generator(), 60_000, 16, nothing_held(SIZE))
    drawn = np.array([own for own, _ in groupby(map(tuple, noise))])
    spread = 4 / np.sqrt(len(drawn))
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=spread)
    np.testing.assert_allclose(drawn.var(axis=0), 1, atol=2 * spread)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < spread


def test_pieces_are_the_noise_of_one_call() -> None:
    whole, _ = draw_noise(generator(), 300, 16, nothing_held(SIZE))
    rng, held, pieces = generator(), nothing_held(SIZE), []
    for count in [1, 2, 7, 90, 200]:
        held = held_of(json.loads(json.dumps(held_facts(held))), SIZE)
        piece, held = draw_noise(rng, count, 16, held)
        pieces.append(piece)
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def policy(**extra: Any) -> dict[str, np.ndarray]:
    """Noise of deviation exp(-1) around zero, wherever it is."""
    bias = np.array([0, 0, -1, -1], np.float32)
    return {"gaussian.0.weight": np.zeros((2, 4), np.float32), "gaussian.0.bias": bias, **extra}


HELD = policy(noise_repeats=np.int32(16))


def runner() -> EnvRunner:
    return EnvRunner(EnvConfig("environments:make_point"), seed=7)


def actions_of(rows: np.ndarray, own: EnvRunner) -> np.ndarray:
    return rows[:, own.spec.obs_size : own.spec.obs_size + own.spec.action_size]


def test_a_policys_array_says_how_long_it_holds_its_noise() -> None:
    """Also over the ends of episodes, which have 25 steps."""
    own = runner()
    held = lengths(actions_of(own.collect(HELD, 500).rows, own))
    assert 2 < max(held) <= 16
    ends = np.cumsum(held)
    assert not set(range(25, 500, 25)) <= set(ends)
    assert max(lengths(actions_of(own.collect(policy(), 500).rows, own))) == 1


@pytest.mark.parametrize("steps", range(20, 30))
def test_a_resumed_run_holds_the_noise_that_it_held(steps: int) -> None:
    first = runner()
    state = first.collect(HELD, steps).state
    expected = first.collect(HELD, 60)
    facts = json.loads(json.dumps(state.facts))
    other = runner()
    other.restore(state._replace(facts=facts), allow_inexact=False)
    found = other.collect(HELD, 60)
    np.testing.assert_array_equal(found.rows, expected.rows)
    assert found.state.facts == expected.state.facts


def test_older_checkpoints_hold_nothing() -> None:
    first = runner()
    state = first.collect(policy(), 30).state
    facts = {name: fact for name, fact in state.facts.items() if name != "held"}
    other = runner()
    other.restore(state._replace(facts=facts), allow_inexact=False)
    np.testing.assert_array_equal(other.collect(HELD, 60).rows, first.collect(HELD, 60).rows)


@pytest.mark.parametrize(
    "held", [{}, [1], {"noise": [1.0], "steps": 1}, {"noise": [1.0, 2.0], "steps": -1}, "much"]
)
def test_nonsense_gets_a_sentence(held: Any) -> None:
    state = runner().collect(HELD, 6).state
    with pytest.raises(InputError, match="does not hold a state of environments:make_point"):
        runner().restore(state._replace(facts=state.facts | {"held": held}), allow_inexact=False)
