import jax
import numpy as np
from programs import draw_sample, make_context, random_rows

from lfiw.replay.cer import CerConfig, make_cer
from lfiw.replay.uniform import UniformConfig, make_uniform

CONTEXT = make_context()


def test_all_but_the_first_row_are_those_of_uniform_replay() -> None:
    replay, uniform = make_cer(CerConfig(), CONTEXT), make_uniform(UniformConfig(), CONTEXT)
    rows = random_rows(0, 40)
    state = replay.add(replay.init(jax.random.key(0)), rows)
    plain = uniform.add(uniform.init(jax.random.key(0)), rows)
    for number in range(3):
        key = jax.random.key(number)
        state, sample, _ = draw_sample(replay, state, key)
        _, expected, _ = draw_sample(uniform, plain, key)
        np.testing.assert_array_equal(sample.slots[1:], expected.slots[1:])
        np.testing.assert_array_equal(sample.weights, 1)


def newest_ages(updates: int, added: list[int], updates_per_env_step: float = 1.0) -> list[int]:
    """Ages of the first row of successive batches, after rows were added so many at a time."""
    context = make_context(updates_per_env_step=updates_per_env_step)
    replay, ages = make_cer(CerConfig(), context), []
    state = replay.init(jax.random.key(0))
    for count in added:
        state = replay.add(state, random_rows(0, count))
    for number in range(updates):
        state, sample, _ = draw_sample(replay, state, jax.random.key(number))
        ages.append((sum(added) - 1 - int(sample.slots[0])) % context.capacity)
    return ages


def test_each_new_row_has_its_turn() -> None:
    """Three rows come at once and five updates follow: the newest comes first, and again when all
    had their turn. The ring of 64 wraps."""
    assert newest_ages(5, [63, 3]) == [0, 1, 2, 0, 0]


def test_rows_without_a_turn_give_way_to_newer_ones() -> None:
    assert newest_ages(3, [10, 2]) == [0, 1, 0]


def test_turns_follow_the_updates_of_a_step() -> None:
    """Half an update for each of six steps sees every second; two for each see it twice."""
    assert newest_ages(4, [20, 6], updates_per_env_step=0.5) == [0, 2, 4, 0]
    assert newest_ages(5, [20, 2], updates_per_env_step=2.0) == [0, 0, 1, 1, 0]
