"""Transformer blocks around any attention layer."""
