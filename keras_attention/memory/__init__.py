"""Attention over memories: learned slots, given facts, several passes."""
