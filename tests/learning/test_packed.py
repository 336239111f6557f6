import jax
import jax.numpy as jnp
import numpy as np

from lfiw.learning.packed import Packed


def arrays(run: float) -> dict[str, jax.Array]:
    return {
        "loss": jnp.float32(run),
        "by_age": jnp.arange(3) + 10 * run,
        "count": jnp.int32(7),
        "table": jnp.arange(4.0).reshape(2, 2) - run,
    }


def test_arrays_come_back_by_name_and_shape() -> None:
    packed = Packed.of(arrays(2.0))
    assert packed.values.tolist() == [2, 20, 21, 22, 7, -2, -1, 0, 1]
    found = jax.device_get(packed).unpack()
    assert {name: array.tolist() for name, array in found.items()} == {
        "loss": 2,
        "by_age": [20, 21, 22],
        "count": 7,
        "table": [[-2, -1], [0, 1]],
    }
    assert all(isinstance(array, np.ndarray) for array in found.values())


def test_a_compiled_batch_of_runs_has_one_layout() -> None:
    packed = jax.jit(jax.vmap(lambda run: Packed.of(arrays(run))))(jnp.array([1.0, 5.0]))
    assert packed.values.shape == (2, 9)
    second = jax.tree.map(lambda values: values[1], packed)
    assert second.unpack()["by_age"].tolist() == [50, 51, 52]


def test_nothing_packs_to_nothing() -> None:
    assert Packed.of({}).unpack() == {}
