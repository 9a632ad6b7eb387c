"""What becomes of a served draft when one field of its config.json is wrong.

`python -m tests.mutations` prints the table of fields and mutations.
"""
