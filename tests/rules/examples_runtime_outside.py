"""Rules 6xx: the machine, its drivers and folders, signals, and this server's own faults."""

from signal import SIGKILL, SIGTERM, SIGWINCH

from tests.rules.example import Example
from tests.rules.make_boot import Cache
from tests.rules.make_case import make_example
from tests.rules.make_command import Typed
from tests.rules.make_device import Found, Opened, Started
from tests.rules.make_life import Neighbour, Packages, Taken
from tests.rules.make_process import Installed, Ranks, Signalled, Threads

EXAMPLES: tuple[Example, ...] = (
    make_example("SD601", Found("cuda:2", 2), Found("cuda:1", 2)),
    make_example("SD602", Opened("aaaa-2"), Opened("aaaa-1")),
    make_example("SD603", Found("auto", None), Found("auto", 0)),
    make_example(
        "SD604",
        Typed(variable="SERVER_MAX_NUM_SEQ=8"),
        Typed(variable="SERVER_MAX_NUM_SEQS=8"),
    ),
    make_example("SD605", Cache("file"), Cache("folder")),
    # A window that changes its size ends nothing.
    make_example("SD606", Signalled(SIGTERM), Signalled(SIGWINCH)),
    make_example("SD607", Started("torch.py"), Started("torch.txt")),
    make_example("SD608", Installed("server/admission.py"), Installed(None)),
    make_example("SD609", Ranks(SIGKILL), Ranks(SIGWINCH)),
    make_example("SD610", Taken(True), Taken(False)),
    make_example("SD611", Neighbour(True), Neighbour(False)),
    make_example("SD612", Packages("uvicorn.py"), Packages("uvicorn.txt")),
    make_example("SD613", Threads(allowed=False), Threads(allowed=True)),
)
