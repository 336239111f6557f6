"""Searching for good settings of a method with Optuna."""
