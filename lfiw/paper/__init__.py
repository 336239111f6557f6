"""The paper's experiments: the chain MDP and the contraction theorem, checked by numbers."""
