"""Networks in jax."""

from lfiw.networks.mlp import *  # noqa: F403
