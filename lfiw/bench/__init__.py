"""Benchmarks: ratios and medians within one run, since machines differ and are shared."""
