"""Which of the processes that serve one model this one is. Standard library only.

A launcher of its own starts the ranks of one host; under `torchrun` each rank is started as a
server of its own, and the environment says which one it is
(https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from server.findings import first_line

# What torchrun sets for every process, and what cannot be guessed where it is missing.
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_MOST_PORT = 2**16 - 1


class RankLost(Exception):
    """Another rank does not answer; the text is what the transport says."""


@contextmanager
def reaching_others() -> Iterator[None]:
    """A transport that fails says that another rank is gone: it closes when a process ends."""
    try:
        yield
    except (RuntimeError, ImportError) as error:
        raise RankLost(first_line(error)) from error


@dataclass(frozen=True, slots=True)
class Seat:
    """Rank `rank` of `world`, the one of number `local` among the `sharers` on its host.

    `started`: it is a rank that runs, not the launcher of ranks; `external`: another program
    started it, and it runs the gate by itself.
    """

    rank: int = 0
    world: int = 1
    local: int = 0
    sharers: int = 1
    started: bool = False
    external: bool = False

    @property
    def speaks(self) -> bool:
        """True for the rank that tells what all of them do, and for their launcher."""
        return self.rank == 0

    @property
    def tells_others(self) -> bool:
        """True for the one process that answers on a port: of a launcher's ranks, rank 0."""
        return self.speaks and not self.launches

    @property
    def launches(self) -> bool:
        """True for the process that is to start the ranks."""
        return self.world > 1 and not self.started

    def device(self, asked: str) -> str:
        """The device of this rank where `asked` (auto, cpu, cuda) names a kind for all."""
        return asked if self.world == 1 or asked == "cpu" else f"{asked}:{self.local}"


ALONE = Seat()


def read_seat(environ: Mapping[str, str], ranks: int | None) -> Seat:
    """The seat of this process among `ranks`; where nobody started others, the launcher's.

    None: as many as the environment says. Raises ValueError, with one clause, where the
    environment contradicts itself or `ranks`.
    """
    if not all(environ.get(name) for name in _NEEDED):
        return Seat(world=ranks or 1, sharers=ranks or 1)
    rank, world = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
    if ranks is not None and world != ranks:
        raise ValueError(f"WORLD_SIZE is {world}, --tensor-parallel-size is {ranks}")
    if world == 1:
        return ALONE
    port = _number(environ, "MASTER_PORT")
    if not 0 < port <= _MOST_PORT:
        raise ValueError(f"MASTER_PORT is {port}, not from 1 to {_MOST_PORT}")
    sharers = _number(environ, "LOCAL_WORLD_SIZE", world)
    local = _number(environ, "LOCAL_RANK", rank)
    if not (0 <= rank < world and 0 <= local < sharers <= world):
        told = f"RANK is {rank} of {world}, LOCAL_RANK is {local} of {sharers}"
        raise ValueError(f"{told}, and each must be below its number of processes")
    return Seat(rank, world, local, sharers, started=True, external=True)


def _number(environ: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environ.get(name)
    if text is None and default is not None:
        return default
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{name} is {text!r}, a number is needed")
    return int(text)
