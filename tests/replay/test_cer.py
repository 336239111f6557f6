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


def newest_ages(replay_updates: int, state: object, newest: int) -> list[int]:
    replay, ages = make_cer(CerConfig(), CONTEXT), []
    for number in range(replay_updates):
        state, sample, _ = draw_sample(replay, state, jax.random.key(number))
        ages.append((newest - int(sample.slots[0])) % CONTEXT.capacity)
    return ages


def test_each_new_row_has_its_turn_as_the_newest() -> None:
    """Three rows come at once and five updates follow: the oldest of the three comes first, and
    when all have had their turn the newest stays. The ring of 64 wraps."""
    replay = make_cer(CerConfig(), CONTEXT)
    state = replay.add(replay.init(jax.random.key(0)), random_rows(0, 63))
    state = replay.add(state, random_rows(1, 3))
    assert newest_ages(5, state, newest=1) == [2, 1, 0, 0, 0]


def test_rows_without_a_turn_give_way_to_newer_ones() -> None:
    replay = make_cer(CerConfig(), CONTEXT)
    state = replay.add(replay.init(jax.random.key(0)), random_rows(0, 10))
    state = replay.add(state, random_rows(1, 2))
    assert newest_ages(2, state, newest=11) == [1, 0]
