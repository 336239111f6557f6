import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from lfiw.replay.ring import (
    Ring,
    add_rows,
    draw_bits,
    init_ring,
    next_slots,
    recent_slots,
    slot_age,
    unit_sample,
)
from lfiw.types import EnvSpec

SPEC = EnvSpec(obs_size=1, action_size=1)


def numbered(*numbers: int) -> jnp.ndarray:
    """Rows whose columns (s, a, reward, discount, s') are n, n + 0.1, ..., n + 0.4."""
    return jnp.asarray(np.add.outer(numbers, np.arange(5) / 10), jnp.float32)


def contents(ring: Ring) -> list[float]:
    return np.asarray(ring.rows[:, 0]).tolist()


def filled(capacity: int, count: int) -> Ring:
    """`count` rows have come, one at a time."""
    ring = init_ring(capacity, SPEC)
    for number in range(1, count + 1):
        ring = add_rows(ring, numbered(number))
    return ring


def test_a_new_ring_is_empty() -> None:
    ring = init_ring(4, SPEC)
    assert ring.rows.shape == (4, 5)
    assert (ring.head, ring.size) == (0, 0)


def test_rows_overwrite_the_oldest() -> None:
    ring = add_rows(init_ring(4, SPEC), numbered(1, 2, 3))
    assert contents(ring) == [1, 2, 3, 0]
    assert (ring.head, ring.size) == (3, 3)
    ring = add_rows(ring, numbered(4, 5, 6))
    assert contents(ring) == [5, 6, 3, 4]
    assert (ring.head, ring.size) == (2, 4)
    ring = add_rows(ring, numbered(7, 8, 9, 10))
    assert contents(ring) == [9, 10, 7, 8]
    assert (ring.head, ring.size) == (2, 4)
    np.testing.assert_array_equal(ring.rows[1], numbered(10)[0])


def test_next_slots_are_those_that_rows_go_to() -> None:
    ring = filled(4, 3)
    slots = next_slots(ring, 3)
    np.testing.assert_array_equal(slots, [3, 0, 1])
    np.testing.assert_array_equal(add_rows(ring, numbered(7, 8, 9)).rows[slots], numbered(7, 8, 9))


def test_more_rows_than_slots_raise() -> None:
    with pytest.raises(ValueError, match="5 rows do not fit into a ring of 4"):
        add_rows(init_ring(4, SPEC), numbered(1, 2, 3, 4, 5))


def test_age_counts_from_the_newest() -> None:
    ring = filled(4, 6)  # holds 5, 6, 3, 4
    np.testing.assert_array_equal(slot_age(ring, jnp.arange(4)), [1, 0, 3, 2])


@pytest.mark.parametrize(
    ("count", "window", "expected"),
    [
        (3, 1, {2}),
        (3, 2, {1, 2}),
        (3, 3, {0, 1, 2}),
        (3, 99, {0, 1, 2}),  # never a slot that is still empty
        (6, 3, {1, 0, 3}),  # rows 6, 5, 4
        (6, 2.9, {1, 0}),  # a fraction of a slot does not count
        (6, 99, {0, 1, 2, 3}),
        (6, 0, {1}),  # at least the newest
    ],
)
def test_draws_come_from_the_newest(count: int, window: float, expected: set[int]) -> None:
    bits = draw_bits(jax.random.key(0), 200)
    slots = recent_slots(bits, filled(4, count), jnp.asarray(window))
    assert set(np.asarray(slots).tolist()) == expected


@pytest.mark.parametrize("window", [7, 64, 100])
def test_draws_are_uniform(window: int) -> None:
    ring = Ring(jnp.zeros((100, 5)), head=jnp.int32(42), size=jnp.int32(100))
    slots = recent_slots(draw_bits(jax.random.key(0), 100_000), ring, window)
    counts = np.bincount(np.asarray(slots), minlength=100)
    drawn = counts[(41 - np.arange(window)) % 100]
    assert drawn.sum() == 100_000
    assert chisquare(drawn).pvalue > 1e-3


def test_large_bits_stay_within_the_window() -> None:
    ring = Ring(jnp.zeros((10, 5)), head=jnp.int32(3), size=jnp.int32(10))
    slots = recent_slots(jnp.array([0, 2**31, 2**32 - 1], jnp.uint32), ring, 10)
    # 2^31 % 10 = 8 and (2^32 - 1) % 10 = 5 slots before the newest, slot 2
    np.testing.assert_array_equal(slots, [2, (2 - 8) % 10, (2 - 5) % 10])


def test_a_window_that_is_a_float_never_exceeds_a_large_ring() -> None:
    """The float32 nearest to 2^24 + 3 is 2^24 + 4."""
    size = 2**24 + 3
    ring = Ring(jnp.zeros((size + 10, 1)), head=jnp.int32(size), size=jnp.int32(size))
    bits = jnp.array([size - 1, size, size + 1], jnp.uint32)
    np.testing.assert_array_equal(
        recent_slots(bits, ring, jnp.float32(size)), [0, size - 1, size - 2]
    )


def test_unit_sample_hands_out_the_rows() -> None:
    ring = filled(4, 3)
    sample = unit_sample(ring, jnp.array([2, 0]), SPEC)
    np.testing.assert_array_equal(sample.slots, [2, 0])
    np.testing.assert_allclose(sample.batch.obs, [[3.0], [1.0]])
    np.testing.assert_allclose(sample.batch.action, [[3.1], [1.1]], rtol=1e-6)
    np.testing.assert_allclose(sample.batch.reward, [3.2, 1.2], rtol=1e-6)
    np.testing.assert_allclose(sample.batch.discount, [3.3, 1.3], rtol=1e-6)
    np.testing.assert_allclose(sample.batch.next_obs, [[3.4], [1.4]], rtol=1e-6)
    np.testing.assert_array_equal(sample.weights, [1.0, 1.0])
    np.testing.assert_array_equal(sample.policy_weights, [1.0, 1.0])
