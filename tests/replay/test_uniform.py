import jax
import jax.numpy as jnp
import numpy as np
from programs import draw_sample, make_context, random_rows
from scipy.stats import chisquare

from lfiw.replay.uniform import UniformConfig, make_uniform


def test_every_stored_transition_is_equally_likely() -> None:
    replay = make_uniform(UniformConfig(), make_context(capacity=64, batch_size=100_000))
    state = replay.add(replay.init(jax.random.key(0)), random_rows(0, 50))
    _, sample, metrics = draw_sample(replay, state, jax.random.key(1))
    counts = np.bincount(np.asarray(sample.slots), minlength=64)
    assert counts[50:].sum() == 0
    assert chisquare(counts[:50]).pvalue > 1e-3
    assert np.all(sample.weights == 1) and np.all(sample.policy_weights == 1)
    assert metrics == {}


def test_nothing_changes_the_ring_but_new_rows() -> None:
    replay = make_uniform(UniformConfig(), make_context(capacity=8, batch_size=4))
    state = replay.add(replay.init(jax.random.key(0)), random_rows(0, 5))
    drawn, sample, _ = draw_sample(replay, state, jax.random.key(1))
    after = replay.feedback(drawn, sample, jnp.full((2, 4), 9.0))
    jax.tree.map(np.testing.assert_array_equal, after, state)
