"""The way to a GPU, with a stand-in for its ring: each thread fills, sends and finishes its own."""

from pathlib import Path

import pytest
import torch

from server.weights import pieces
from server.weights.entries import TensorEntry
from server.weights.load import _staged, _ToGpu
from server.weights.pieces import SLOT_BYTES, Held, Piece, cut, open_files
from server.weights.prefetch import Prefetch
from server.weights.team import Team
from tests.weights.make import make_plan, make_tensors, write_single
from tests.weights.test_load import ODD, make_destinations


class Ring:
    """Two buffers whose copies run only when a buffer is taken again, or at the end."""

    def __init__(self) -> None:
        self._slots = [torch.zeros(SLOT_BYTES, dtype=torch.uint8) for _ in range(2)]
        self._sent: list[tuple[torch.Tensor, torch.Tensor] | None] = [None, None]
        self._next = 0
        self.finished = False

    def take(self) -> torch.Tensor:
        self._copy(self._next)
        return self._slots[self._next]

    def send(self, staged: torch.Tensor, into: torch.Tensor) -> None:
        slot = self._slots[self._next]
        assert staged.untyped_storage().data_ptr() == slot.untyped_storage().data_ptr()
        self._sent[self._next] = (staged, into)
        self._next = 1 - self._next

    def finish(self) -> None:
        self._copy(0)
        self._copy(1)
        self.finished = True

    def _copy(self, slot: int) -> None:
        if (sent := self._sent[slot]) is not None:
            sent[1].copy_(sent[0])
        self._sent[slot] = None


@pytest.mark.parametrize("piece_bytes", [64, 6000])
@pytest.mark.parametrize("wanted", [torch.bfloat16, torch.float32])
def test_pieces_go_round_the_rings_of_several_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int, wanted: torch.dtype
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", piece_bytes)
    tensors = make_tensors(ODD)
    write_single(tmp_path, tensors)
    plan = make_plan(tmp_path, ODD)
    into = make_destinations(ODD, wanted)
    flat = {name: tensor.view(-1) for name, tensor in into.items()}
    rings: list[Ring] = []
    released: list[Piece] = []
    prefetch = Prefetch((), lambda _: Held())
    monkeypatch.setattr(prefetch, "release", released.extend)

    def make_worker() -> _ToGpu:
        rings.append(Ring())
        return _ToGpu(flat, rings[-1], prefetch)

    with open_files(plan) as descriptors:
        team = Team(make_worker, cut(plan, descriptors), lambda _: None, 4)
        team.start()
        team.wait()
    assert len(rings) == 4
    assert sum(piece.size_bytes for piece in released) == plan.checkpoint_bytes
    assert all(ring.finished for ring in rings)
    assert all(torch.equal(into[name], tensors[name].to(wanted)) for name in tensors)


@pytest.mark.parametrize("stored", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("begin", [0, 8, 63, 64, 4033, 4088, 4096, 2**24 + 40])
def test_a_buffer_is_filled_where_in_a_cache_line_the_piece_begins(
    stored: torch.dtype, begin: int
) -> None:
    size_bytes = pieces.PIECE_BYTES
    piece = Piece(0, TensorEntry("a", "?", (), Path("x"), begin, 0), 0, 0, size_bytes)
    buffer = torch.empty(SLOT_BYTES + 4096, dtype=torch.uint8)
    buffer = buffer[-buffer.data_ptr() % 4096 :][:SLOT_BYTES]
    staged = _staged(buffer, piece, stored)
    apart = (staged.data_ptr() - begin) % 4096
    assert staged.nbytes == size_bytes
    assert apart >= 64
    assert -apart % 64 == begin % 64 % stored.itemsize
