"""Where samples come from, and whether they look as real ones should. `samples.py` is the way in."""
