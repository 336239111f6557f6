"""The registry of networks: each kind has its numpy twin in `lfiw.acting.networks.TWINS`."""

from collections.abc import Callable, Sequence

from lfiw.networks.base import Network, Parameters, stacked, twins
from lfiw.networks.mlp import Layer, Mlp, mlp
from lfiw.networks.residual import residual

__all__ = ["NETWORKS", "Layer", "Mlp", "Network", "Parameters", "mlp", "stacked", "twins"]

# By kind: layer sizes -> network. Arrays of an MLP are `PREFIX.LAYER.weight` and `.bias`; those
# of another kind are `PREFIX.KIND....`, by which its twin is found.
NETWORKS: dict[str, Callable[[Sequence[int]], Network]] = {"mlp": mlp, "residual": residual}
