import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from lfiw.acting.networks import numpy_network
from lfiw.acting.policy import NumpyPolicy, Policy
from lfiw.agents.sac import sample_action
from lfiw.runs.files import save_arrays
from lfiw.runs.layout import policy_file


def random_layer(prefix: str, inputs: int, outputs: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        f"{prefix}.0.weight": rng.standard_normal((inputs, outputs), np.float32),
        f"{prefix}.0.bias": rng.standard_normal(outputs, np.float32),
    }


def test_gaussian_is_that_of_the_agent() -> None:
    arrays = random_layer("gaussian", 3, 4)
    policy = NumpyPolicy(arrays)
    rng = np.random.default_rng(1)
    obs, noise = rng.standard_normal((50, 3), np.float32), rng.standard_normal((50, 2), np.float32)
    outputs = obs @ arrays["gaussian.0.weight"] + arrays["gaussian.0.bias"]
    actions, log_probs = sample_action(jnp.asarray(outputs), jnp.asarray(noise))
    np.testing.assert_allclose(policy.act(obs, noise), actions, atol=1e-5)
    np.testing.assert_allclose(policy.log_density(obs, noise), log_probs, atol=1e-2)
    one = policy.log_density(obs[0], noise[0])
    np.testing.assert_allclose(one, policy.log_density(obs, noise)[0], rtol=1e-4)


def test_a_deterministic_policy_has_no_density() -> None:
    policy = NumpyPolicy(random_layer("deterministic", 3, 2))
    density = policy.log_density(np.ones((5, 3), np.float32), np.ones((5, 2), np.float32))
    np.testing.assert_array_equal(density, np.zeros(5))


def test_policy_of_two_kinds_is_refused() -> None:
    arrays = random_layer("gaussian", 3, 4) | random_layer("deterministic", 3, 2)
    with pytest.raises(ValueError, match="too many"):
        NumpyPolicy(arrays)


def test_network_of_an_unknown_kind_is_named() -> None:
    with pytest.raises(KeyError, match="wizard"):
        numpy_network({"policy.wizard.0.weight": np.zeros((2, 2))}, "policy")
    with pytest.raises(KeyError, match="no network 'ratio'"):
        numpy_network({"policy.0.weight": np.zeros((2, 2))}, "ratio")


def test_prediction_is_in_the_units_of_the_environment() -> None:
    """tanh(0) is the middle of the bounds, and tanh of a large number their end."""
    arrays = {
        "deterministic.0.weight": np.zeros((2, 2), np.float32),
        "deterministic.0.bias": np.float32([0, 40]),
        "action_low": np.array([-3.0, 10.0]),
        "action_high": np.array([1.0, 30.0]),
    }
    action, _ = Policy(arrays).predict([5, 5])
    np.testing.assert_array_equal(action, np.float32([-1, 30]))
    assert action.dtype == np.float32


DEPLOYED = """
import sys
for name in ("gymnasium", "jax", "optax", "scipy", "matplotlib", "rich", "tyro", "threadpoolctl"):
    sys.modules[name] = None  # as if it were not installed
import lfiw
print(lfiw.load_policy(sys.argv[1]).predict([0.0, 0.0])[0])
"""


def test_a_policy_needs_numpy_and_safetensors_alone(tmp_path: Path) -> None:
    bounds = {"action_low": np.float32([-2]), "action_high": np.float32([2])}
    arrays = random_layer("deterministic", 2, 1) | {"deterministic.0.bias": np.float32([40])}
    save_arrays(policy_file(tmp_path, 0), arrays | bounds)
    command = [sys.executable, "-c", DEPLOYED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[2.]"), done.stderr
