"""A header for tests that want it whole, or its first fault."""

from pathlib import Path

from server.weights.header import Header, examine


def read_header(path: Path) -> Header:
    """The header of one file; raises the first WeightFault of `examine`."""
    header, faults = examine(path)
    if faults or header is None:
        raise faults[0]
    return header
