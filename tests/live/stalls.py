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

# The boot stays at the end of one phase, with everything that the phase has made.
STALL = """
import sys, time
from contextlib import contextmanager
from server.__main__ import main
from server.log import Log
at, phase = sys.argv[1], Log.phase
@contextmanager
def stalling(self, name, **how):
    with phase(self, name, **how):
        yield
        if name == at:
            print("stalled", file=sys.stderr, flush=True)
            time.sleep(600)
Log.phase = stalling
sys.argv = ["server", *sys.argv[2:]]
sys.exit(main())
"""


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
