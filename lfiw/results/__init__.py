"""Learning curves read back, from method folders and stored results: kept, tabulated and drawn."""

from lfiw.results.method import Method
from lfiw.results.methods import read_methods

__all__ = ["Method", "read_methods"]
