"""Attention over long sequences: fewer pairs of positions than all."""
