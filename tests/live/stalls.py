"""Boots that stand still where a test wants them to, started as processes of their own."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.process import environment

# The load reads five pieces, and goes on once a file is there.
SLOW_LOAD = """
import sys, time
from pathlib import Path
from server.__main__ import main
from server.weights import load
read, seen, go = load.read_into, [], Path(sys.argv[1])
def slow(piece, memory, skip_bytes=0):
    seen.append(piece)
    while len(seen) > 5 and not go.exists():
        time.sleep(0.02)
    read(piece, memory, skip_bytes)
load.read_into = slow
sys.argv = ["server", *sys.argv[2:]]
sys.exit(main())
"""

# The boot does the work of one phase over and over: whatever comes finds it there.
AT_WORK = """
import sys
from server import serve
from server.__main__ import main
from server.weights import load
module, name = {
    "load": (load, "load_weights"), "profile": (serve, "profile"), "self-test": (serve, "self_test")
}[sys.argv[1]]
work = getattr(module, name)
def at_work(*given):
    while True:
        work(*given)
setattr(module, name, at_work)
sys.argv = ["server", *sys.argv[2:]]
sys.exit(main())
"""

# The boot stays at the end of one phase, with everything that the phase has made.
_STAYS = """
import ctypes, sys, threading, time
from contextlib import contextmanager
from server import interrupts
from server.__main__ import main
from server.log import Log
lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
lock(mutex)
at, phase = sys.argv[1], Log.phase
def tell():
    print("stalled", file=sys.stderr, flush=True)
@contextmanager
def staying(self, name, **how):
    with phase(self, name, **how):
        yield
        if name == at:
            STAY
Log.phase = staying
sys.argv = ["server", *sys.argv[2:]]
sys.exit(main())
"""
# It hears a signal, however late it gets its turn, and hears it once.
_HEARS = "interrupts._PATIENCE_S = interrupts._AGAIN_S = 600"
STALL = _STAYS.replace("STAY", f"{_HEARS}; tell(); time.sleep(600)")
# In a call that no signal ends: it waits for a lock that nobody gives back. Told once it is there.
STUCK = _STAYS.replace("STAY", "threading.Timer(0.5, tell).start(); lock(mutex)")


@contextmanager
def started(
    program: str, *arguments: str, cache: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """`program` with `arguments`; it is ended at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env=environment(cache, env),
        cwd=cache,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
