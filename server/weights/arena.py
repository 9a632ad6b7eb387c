"""The final memory of a model's weights on a host: one private mapping. Standard library only.

One mapping, because it can be filled before torch is there to make tensors.
"""

import mmap
from collections.abc import Iterable

from server.weights.entries import TensorEntry
from server.weights.pieces import LINE_BYTES, aliased


class Arena:
    """A place for each tensor of a plan, in file order; nothing is resident before it is written.

    It lives as long as a tensor or a view of it does.
    """

    def __init__(self, entries: Iterable[TensorEntry], width_bytes: int) -> None:
        """Places for `entries` at `width_bytes` an element. Raises MemoryError."""
        self._places: dict[str, tuple[int, int]] = {}
        end = 0
        for entry in entries:
            size_bytes = entry.numel * width_bytes
            if aliased(end, entry.begin):
                end += LINE_BYTES
            self._places[entry.name] = (end, size_bytes)
            end += -(-size_bytes // LINE_BYTES) * LINE_BYTES
        try:
            memory = mmap.mmap(-1, max(end, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(f"{end} bytes for the weights: {error.strerror}") from None
        self._memory = memoryview(memory)

    def view(self, name: str) -> memoryview:
        """The bytes of one tensor, writable."""
        begin, size_bytes = self._places[name]
        return self._memory[begin : begin + size_bytes]
