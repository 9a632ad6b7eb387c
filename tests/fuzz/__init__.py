"""Fuzzing of the gate: bytes in, a verdict out, and never anything else.

`python -m tests.fuzz --runs 100000` runs it with atheris, or with hypothesis.
"""
