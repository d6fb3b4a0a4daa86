"""Layers and weights of other packages, turned into layers of this one, and back."""
