"""Trained policies for programs that know nothing of lfiw, and for others to look at."""
