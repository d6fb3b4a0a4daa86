"""Models from public bug reports about quantized .tflite files, and a command that converts them all.

`python -m benchmarks.bug_reports` prints the table case x precision; see docs/benchmarks/bug_reports.md.
"""
