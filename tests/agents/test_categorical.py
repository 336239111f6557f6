import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lfiw.acting.networks import numpy_network
from lfiw.agents.categorical import LIMIT, NUM_ATOMS, atoms, categorical, projected, scalar
from lfiw.networks import mlp

STEP = 0.1  # between two atoms


def at(value: float) -> int:
    """The atom of a value."""
    return round((value + LIMIT) / STEP)


def certain(value: float) -> np.ndarray:
    """Logits of a critic that is sure of one atom."""
    logits = np.full(NUM_ATOMS, -100.0, np.float32)
    logits[at(value)] = 0.0
    return logits


def test_atoms() -> None:
    np.testing.assert_allclose(
        np.asarray(atoms())[[0, 1, 50, 100]], [-5.0, -4.9, 0.0, 5.0], atol=1e-6
    )


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (1.0, {1.0: 1.0}),
        (0.23, {0.2: 0.7, 0.3: 0.3}),
        (-0.04, {-0.1: 0.4, 0.0: 0.6}),
        (7.0, {5.0: 1.0}),
        (-1e9, {-5.0: 1.0}),
    ],
)
def test_a_position_is_split_between_its_neighbours(
    position: float, expected: dict[float, float]
) -> None:
    """The atom at 2 moves to half of it and so much more."""
    masses = jax.nn.one_hot(jnp.array([at(2.0)]), NUM_ATOMS)
    mass = projected(masses, jnp.array([position - 1.0]), jnp.array([0.5]))[0]
    for value, share in expected.items():
        np.testing.assert_allclose(mass[at(value)], share, atol=1e-4)
    np.testing.assert_allclose(np.sum(mass), 1.0, rtol=1e-5)


@pytest.mark.parametrize("slope", [0.0, 0.3, 0.9, 0.995, 1.0])
def test_projection_against_every_atom_with_every_place(slope: float) -> None:
    key_mass, key_shift = jax.random.split(jax.random.key(0))
    masses = np.asarray(jax.nn.softmax(5 * jax.random.normal(key_mass, (200, NUM_ATOMS))))
    shifts = np.array(jax.random.uniform(key_shift, (200,), minval=-7, maxval=7))
    shifts[:20] = np.round(shifts[:20], 1)  # places on the atoms themselves
    places = np.clip(shifts[:, None] + slope * np.asarray(atoms(), np.float64), -LIMIT, LIMIT)
    distances = np.abs((places[:, None, :] - np.asarray(atoms())[:, None]) / STEP)
    expected = np.sum(np.maximum(1 - distances, 0) * masses[:, None, :], axis=-1)
    found = projected(jnp.asarray(masses), jnp.asarray(shifts), jnp.full(200, slope))
    np.testing.assert_allclose(found, expected, atol=3e-5)
    np.testing.assert_allclose(np.sum(found, axis=-1), 1.0, atol=3e-5)


def loss_of(
    outputs: np.ndarray, next_outputs: list[np.ndarray], bonus: float = 0.0, discount: float = 1.0
) -> np.ndarray:
    """Of one row with reward 1 and gamma 1/2; the outputs are those of both critics."""
    losses = categorical().loss(
        jnp.asarray(outputs)[:, None],
        jnp.array([1.0]),
        jnp.array([discount]),
        0.5,
        jnp.asarray(next_outputs)[:, None],
        jnp.array([bonus]),
    )
    return np.asarray(losses)[:, 0]


def test_loss_by_hand() -> None:
    """The critic with the smaller mean says 2, so the target is 1 + 0.5 * 2 = 2: a critic that is
    sure of it loses nothing, one without an opinion log 101."""
    outputs = np.stack([certain(2.0), np.zeros(NUM_ATOMS, np.float32)])
    losses = loss_of(outputs, [certain(4.0), certain(2.0)])
    np.testing.assert_allclose(losses, [0.0, np.log(101)], atol=1e-4)
    np.testing.assert_allclose(losses, loss_of(outputs, [certain(2.0), certain(4.0)]), atol=1e-6)


def test_target_has_entropy_and_the_end_of_an_episode() -> None:
    next_outputs = [certain(2.0), certain(2.0)]
    # 1 + 0.5 * (2 - 0.4) = 1.8, and 1 where the episode terminated
    expected = np.stack([certain(1.8), certain(1.8)])
    np.testing.assert_allclose(loss_of(expected, next_outputs, bonus=-0.4), 0.0, atol=1e-3)
    expected = np.stack([certain(1.0), certain(1.0)])
    found = loss_of(expected, next_outputs, bonus=-0.4, discount=0.0)
    np.testing.assert_allclose(found, 0.0, atol=1e-3)


def test_a_half_way_target_has_the_entropy_of_two_atoms() -> None:
    """Target 1 + 0.5 * 0.1 = 1.05: half on 1.0, half on 1.1; the best loss is log 2."""
    logits = np.logaddexp(certain(1.0), certain(1.1))
    losses = loss_of(np.stack([logits, logits]), [certain(0.1), certain(0.1)])
    np.testing.assert_allclose(losses, np.log(2), rtol=1e-3)


def test_target_carries_no_gradient() -> None:
    def total(next_outputs: jax.Array) -> jax.Array:
        row = jnp.ones(1)
        outputs = jnp.zeros((2, 1, NUM_ATOMS))
        return jnp.sum(categorical().loss(outputs, row, row, 0.5, next_outputs, row))

    gradient = jax.grad(total)(jax.random.normal(jax.random.key(0), (2, 1, NUM_ATOMS)))
    np.testing.assert_array_equal(gradient, 0.0)


def test_value_is_the_mean() -> None:
    half = np.logaddexp(certain(-1.0), certain(3.0))
    outputs = jnp.asarray(np.stack([certain(2.5), half]))
    np.testing.assert_allclose(categorical().value(outputs), [2.5, 1.0], rtol=1e-4)
    np.testing.assert_array_equal(scalar(jnp.square).value(jnp.array([[3.0], [4.0]])), [3.0, 4.0])


def test_numpy_twin_takes_the_mean() -> None:
    network = mlp((3, 8, NUM_ATOMS))
    parameters = jax.vmap(network.init)(jax.random.split(jax.random.key(0), 2))
    arrays = jax.device_get(network.arrays(parameters, "critics.categorical"))
    twin = numpy_network(
        {**arrays, "critics.categorical.atoms": 7 * np.asarray(atoms())}, "critics"
    )
    inputs = 5 * np.random.default_rng(0).standard_normal((20, 3), np.float32)
    expected = jax.vmap(lambda own: categorical().value(network.apply(own, inputs)))(parameters)
    assert (twin.input_size, twin.output_size) == (3, 1)
    assert twin(inputs).shape == (2, 20, 1)
    np.testing.assert_allclose(twin(inputs)[..., 0], 7 * expected, rtol=1e-3, atol=1e-4)
