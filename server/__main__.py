"""`python -m server`: see `server/cli.py` for flags and `server/startup.py` for the boot."""

import signal
import sys

# Until the boot can answer it, Ctrl-C ends the process without a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from server.startup import main  # noqa: E402  (after the line above)

if __name__ == "__main__":
    sys.exit(main())
