"""What the ranks of one model tell each other while they compute.

Row-parallel layers are summed, and what is split by rows of its output is gathered, as in
Megatron-LM (https://arxiv.org/abs/1909.08053, section 3). A server of one rank has the same
modules, and a group whose every operation is the identity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed
from torch.nn import functional

from server.seats import reaching_others
from server.weights.parts import WHOLE, Share

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks of one model, of which `share` says which one this is; alone by default.

    With more than one, torch's default process group must be open, over `device`. Every rank must
    call the same operations in the same order. They raise RankLost.
    """

    share: Share = WHOLE
    device: torch.device = _CPU

    @classmethod
    def open(cls, store: "Store", share: Share, device: torch.device) -> "Group":
        """Meet the other ranks: over NCCL on CUDA, else over gloo. Raises RankLost."""
        with reaching_others():
            distributed.init_process_group(
                "nccl" if device.type == "cuda" else "gloo",
                store=store,
                rank=share.rank,
                world_size=share.ranks,
                device_id=device if device.type == "cuda" else None,
            )
        return cls(share, device)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all ranks of `values`, which are overwritten; the same on each rank."""
        if self.share != WHOLE:
            self._add_up(values)
        return values

    def gather(self, part: Tensor, width: int) -> Tensor:
        """`[..., width]` from each rank's `[..., len(share.of(width))]`, in order of rank."""
        if self.share == WHOLE:
            return part
        widths = [len(Share(rank, self.share.ranks).of(width)) for rank in range(self.share.ranks)]
        most = max(widths)
        padded = functional.pad(part, (0, most - part.shape[-1])).contiguous()
        parts = [torch.empty_like(padded) for _ in widths]
        self._exchange(parts, padded)
        return torch.cat([p[..., :own] for p, own in zip(parts, widths, strict=True)], dim=-1)

    def wait(self) -> None:
        """Wait until every rank has come here."""
        self.rows((0,))

    def any(self, flag: bool) -> bool:
        """True when `flag` is true on one rank."""
        return any(row[0] for row in self.rows((int(flag),)))

    def rows(self, values: Sequence[int]) -> list[list[int]]:
        """Each rank's `values`, as many on each, in order of rank."""
        if self.share == WHOLE:
            return [list(values)]
        own = torch.tensor(values, dtype=torch.int64, device=self.device)
        rows = [torch.empty_like(own) for _ in range(self.share.ranks)]
        self._exchange(rows, own)
        with reaching_others():
            return [row.tolist() for row in rows]

    def _add_up(self, values: Tensor) -> None:
        with reaching_others():
            distributed.all_reduce(values)

    def _exchange(self, parts: list[Tensor], own: Tensor) -> None:
        with reaching_others():
            distributed.all_gather(parts, own)


ONE_RANK = Group()
