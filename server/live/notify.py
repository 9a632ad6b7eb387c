"""Tells systemd how far the boot is. Standard library only.

The protocol is one datagram of NAME=VALUE lines to the socket that NOTIFY_SOCKET names
(systemd man/sd_notify.xml).
"""

from collections.abc import Mapping
from contextlib import suppress

VARIABLE = "NOTIFY_SOCKET"
_PATIENCE_S = 1.0


class Notifier:
    """One service manager, or nobody. One that is gone or does not listen is no fault."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Take the address from `environ`: a path, or @ and a name without a file."""
        address = environ.get(VARIABLE, "")
        self._address = address if address.startswith(("/", "@")) else ""

    def tell(self, status: str, *states: str) -> None:
        """Send `states` (such as READY=1) and one line of `status` for people."""
        if not self._address:
            return
        import socket  # a boot that nobody watches does without

        lines = [*states, f"STATUS={' '.join(status.split())}"]
        address = self._address
        if address.startswith("@"):
            address = f"\0{address[1:]}"
        # The address may be longer than any can be, or hold what no address does.
        with (
            suppress(OSError, ValueError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        ):
            # Where the queue is full a status may be lost, a state is worth a moment.
            sender.settimeout(_PATIENCE_S if states else 0)
            sender.sendto("\n".join(lines).encode("utf-8", "backslashreplace"), address)
