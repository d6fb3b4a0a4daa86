"""Attention over one sequence or between two: the scores of all pairs of positions."""
