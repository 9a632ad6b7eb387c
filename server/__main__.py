"""`python -m server` and `draftgate`. Flags: `server/cli.py`; what is run: `server/process.py`."""

import errno
import gc
import os
import signal
import sys
from contextlib import suppress

_STANDARD_ERROR = 2
_UNAVAILABLE = 69
# Said without a module or a stream: whatever is imported for it would have to be opened.
_NO_FILES = b"""\
error[SD613] process-limit: no more files can be opened; fix: raise that limit (ulimit -n)
refused: 1 error; exit 69
"""


def main() -> int:
    """Run one boot with the process's own arguments; returns its exit code."""
    # Until the boot can answer it, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A refusal lives for a moment. Collecting while it imports, and once more at its end, finds
    # nothing and costs the operator a fifth of the wait. A boot collects once torch is imported.
    gc.disable()
    _fill_closed_streams()
    try:
        code = _run()
        _end_beside_threads(code)
        return code
    finally:
        # Python gives signals back to the kernel before it ends; the exit code is decided.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        gc.freeze()


def _run() -> int:
    """The boot; where not even its modules can be opened, its one line and exit code."""
    try:
        from server.process import main as run

        return run()
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        os.write(_STANDARD_ERROR, _NO_FILES)
        return _UNAVAILABLE


def _fill_closed_streams() -> None:
    """Open the null device for each standard stream that is closed (`>&-`).

    Else a file that is opened takes the stream's number, and what a library prints goes into it.
    """
    with suppress(OSError):  # where there is no null device, as in some sandboxes
        while (number := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
            pass
        os.close(number)


def _end_beside_threads(code: int) -> None:
    """End the process at once where a thread of a load that was given up is still at work.

    Python ends such a thread when it next comes back from torch, and torch then has the whole
    process aborted (SIGABRT), whatever its exit code was.
    """
    threading = sys.modules.get("threading")  # a refusal may not have imported it
    if threading is not None and threading.active_count() > 1:
        from server.interrupts import end_now

        end_now(code)


if __name__ == "__main__":
    sys.exit(main())
