"""Methods as tasks of a Ray cluster."""
