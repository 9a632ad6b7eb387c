"""One fuzz input as one run of bytes, so that a plain draft config.json is an input as it is.

The parts stand between record separators (0x1e), which no JSON text holds unescaped: draft
config, target config, weight file, index. All but the first may be missing. A weight file that
starts with `{` is a header's text, and gets its length and its (sparse) data from the harness.
"""

from typing import NamedTuple

SEPARATOR = b"\x1e"


class Blob(NamedTuple):
    """The files of one input; an empty part is a file that is not there, save the draft's."""

    draft: bytes
    target: bytes = b""
    weights: bytes = b""
    shard_index: bytes = b""

    def packed(self) -> bytes:
        """The input as bytes; missing parts at the end are left out."""
        return SEPARATOR.join(self).rstrip(SEPARATOR)


def unpacked(data: bytes) -> Blob:
    """The parts of an input. Never raises: what follows a third separator is the index."""
    return Blob(*data.split(SEPARATOR, 3))
