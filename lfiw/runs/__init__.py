"""A method folder: what training writes and everything else reads, without jax."""
