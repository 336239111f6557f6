"""Environments and the policies that act in them: collecting and evaluating, without jax."""
