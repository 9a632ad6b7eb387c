"""The ranks of one host: started from one launcher, watched, and never left behind.

torch's own launcher forks them (`torch.multiprocessing.start_processes`). A fork, because each
rank then has the launcher's sealed admission and its modules, torch among them, without judging
a file or importing anything again; the launcher uses neither a thread nor a device before it,
which is what a forked process cannot take over. They meet in a file without a name (memfd), so
that nothing is left on a disk and nothing listens beyond gloo's sockets on the loopback device.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

from server.ending import Connect, Council
from server.interrupts import Interrupts
from server.seats import Seat

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

RankMain = Callable[[Seat, Connect], int]

_SET_DEATH_SIGNAL = 1  # prctl's PR_SET_PDEATHSIG
# The loopback device: ranks of one host have nothing to do with a network.
_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
# How long a rank may take to end when it was told to, or when another one has ended.
_GRACE_S = 5.0
# How long the ranks that torchrun started wait for the last of them.
_RENDEZVOUS_S = 300


class Lost(NamedTuple):
    """A rank that ended before the others, and how, in words."""

    rank: int
    pid: int | None
    how: str


class Ranks:
    """The processes of the ranks; `start` comes first, then `watch`."""

    def __init__(self, world: int) -> None:
        """Prepare the file in which they meet. Raises OSError."""
        self.world = world
        self._file = os.memfd_create("draftgate-ranks")
        self._processes: list[BaseProcess] = []

    def connect(self) -> "Store":
        """The store in that file, for the launcher or for a rank."""
        from torch._C._distributed_c10d import FileStore

        return FileStore(f"/proc/self/fd/{self._file}", -1)

    def start(self, main: RankMain, interrupts: Interrupts) -> None:
        """Start every rank; `main` gives its exit code. Raises OSError, and then none is left."""
        from multiprocessing import active_children

        from torch.multiprocessing.spawn import start_processes

        # A signal in mid-start waits until every rank is known, and a rank's until it listens.
        signal.pthread_sigmask(signal.SIG_BLOCK, interrupts.numbers)
        arguments = (main, self.connect, self.world, os.getpid())
        try:
            context = start_processes(  # type: ignore[no-untyped-call]
                _enter, arguments, self.world, join=False, start_method="fork"
            )
            self._processes = list(context.processes)
        except OSError:
            self._processes = list(active_children())
            self._kill()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts.numbers)

    def watch(self, interrupts: Interrupts, council: Council, hold: bool) -> Lost | None:
        """Until every rank has ended. A signal is passed on; a rank that is lost ends them all.

        `hold`: no rank is to end by itself once the verdict is "accepted".
        """
        bell, lost, end_s = interrupts.bell(), None, None
        while running := [p for p in self._processes if p.exitcode is None]:
            if end_s is None and interrupts.number is not None:
                end_s = time.monotonic() + _GRACE_S
                self._pass_on(interrupts.number)
            elif end_s is None and len(running) < self.world:
                end_s = time.monotonic() + _GRACE_S
                lost = self._lost(council, hold)
                if lost is not None and council.claim():
                    end_s = 0.0
            left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            if left_s == 0.0:
                self._kill()
            elif bell in wait([bell, *(p.sentinel for p in running)], left_s):
                os.read(bell, 1)
        return lost

    def _lost(self, council: Council, hold: bool) -> Lost | None:
        """The rank that ended, and how; None where it ended with the verdict of all."""
        codes = [process.exitcode for process in self._processes]
        rank, found = next((rank, code) for rank, code in enumerate(codes) if code is not None)
        agreed = council.code(0)
        if found == agreed and not (hold and agreed == 0):
            return None
        how = f"ended with exit code {found}"
        if found < 0:
            how = f"was ended by {signal.Signals(-found).name}"
        return Lost(rank, self._processes[rank].pid, how)

    def _pass_on(self, number: int) -> None:
        for process in self._processes:
            if process.pid is not None and process.exitcode is None:
                os.kill(process.pid, number)

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()


def _enter(index: int, main: RankMain, connect: Connect, world: int, launcher: int) -> None:
    """The first steps of a rank's process, which ends with its exit code."""
    # torch asks for SIGINT at the launcher's death, which a rank inside a kernel does not hear.
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != launcher:
        os._exit(1)
    os.environ.update(_LOOPBACK)
    try:
        sys.exit(main(Seat(index, world, index, world, started=True), connect))
    except Exception as error:  # torch would put it in a file that nobody reads
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def torchrun_store() -> "Store":
    """The store of the ranks that torchrun started. Raises RuntimeError and ImportError."""
    from server.memory.device import usable_torch

    torch, outcome = usable_torch()
    if torch is None:
        raise ImportError(outcome.findings[0].message)
    found: list[Store] = []
    failed: list[Exception] = []

    def meet() -> None:
        try:
            timeout = timedelta(seconds=_RENDEZVOUS_S)
            found.append(next(torch.distributed.rendezvous("env://", timeout=timeout))[0])
        except Exception as error:  # a host without an address, whatever torch makes of it
            failed.append(error)

    # It waits for the others deaf to signals: a thread of its own leaves this one its ears.
    thread = Thread(target=meet, name="rendezvous", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise RuntimeError(str(failed[0])) from failed[0]
    return found[0]
