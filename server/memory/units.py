"""Bytes as text for messages. Exact, without floats."""

from server.render.ledger import size
from server.render.text import count


def bytes_text(size_bytes: int) -> str:
    """Two decimals in the largest unit that gives at least 1, e.g. "15.26 GiB"."""
    return size(size_bytes) if size_bytes >= 2**10 else count(size_bytes, "byte")


def apart(first_bytes: int, second_bytes: int) -> tuple[str, str]:
    """Two sizes as text, in full where the rounded ones would look equal.

    A message "30.3 against 30.3" tells nothing (vllm-project/vllm pull request 33358).
    """
    first, second = bytes_text(first_bytes), bytes_text(second_bytes)
    if first_bytes != second_bytes and first == second:
        return f"{first_bytes} bytes", f"{second_bytes} bytes"
    return first, second
