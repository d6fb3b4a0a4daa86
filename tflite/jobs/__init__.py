"""What the child process does, one job a file; each has `run(folder, job, emit)` and returns plain values."""
