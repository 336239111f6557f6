"""LFIW inside the agents of other libraries; each module needs its library alone."""
