"""One process of a boot: what it was asked for, how it tells, and which others there are."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from server.cli import Telling
from server.log import Log
from server.options import Options
from server.seats import ALONE, Seat

if TYPE_CHECKING:
    from server.ending import Council


@dataclass(frozen=True, slots=True)
class Run:
    """One process of a boot. `options` is None when its command line is refused.

    `council`: the ranks that agree about the verdict, where this process is one of several.
    """

    log: Log
    telling: Telling
    options: Options | None
    seat: Seat = ALONE
    council: "Council | None" = None

    @property
    def holds(self) -> bool:
        """True when what is loaded is held until a signal."""
        return self.options is not None and not self.options.exit_after_boot
