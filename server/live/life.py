"""The life of one boot as others see it: systemd, whoever asks the port, other instances."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from server.live.notify import Notifier
from server.log import Log
from server.options import Options
from server.report import SettingFacts

if TYPE_CHECKING:
    from server.live.http import Answering
    from server.live.neighbours import Presence
    from server.live.state import State
    from server.memory.facts import DeviceFacts


class Life:
    """Tells of one boot until `end`. What only some boots need is imported where it is asked."""

    def __init__(self, log: Log, environ: Mapping[str, str]) -> None:
        """Tell of what `log` tells; `environ` says whom, and an empty one nobody."""
        self._log = log
        self._environ = environ
        self._notifier = Notifier(environ)
        self._state: State | None = None
        self._answering: Answering | None = None
        self._presence: Presence | None = None
        log.watch = self._notifier.tell

    def open_port(self, options: Options) -> None:
        """Answer on the port of --port from now on. Raises Refused."""
        if options.port is None:
            return
        from server.live.port import ADDRESS, PATHS, answer, bind
        from server.live.state import State

        log = self._log
        self._state = State(log)
        listening = log.obtain(*bind(options.port))
        self._answering = log.obtain(*answer(listening, self._state))
        number = self._answering.number
        log.report.settings["port"] = SettingFacts(number, options.source("port"))
        log.console.line(f"port: http://{ADDRESS}:{number} answers {' '.join(PATHS)}")

    def meet(self, facts: "DeviceFacts") -> None:
        """SD611: tell of each other instance on the device, and be seen by those that come."""
        from server.live.neighbours import Instance, arrive, instances_folder

        device = facts.uuid or f"{facts.kind}-{facts.index}"
        memory, folder = self._log.report.memory, instances_folder(self._environ, device)
        if memory is None or folder is None:
            return
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        own = Instance(os.getpid(), facts.label, now, memory.limit_bytes)
        with suppress(OSError):  # a home that cannot be written is no fault
            self._presence, outcome = arrive(folder, own)
            self._log.tell(outcome)

    def ready(self) -> None:
        """Everything is held."""
        if self._state is not None:
            self._state.ready = True
        self._notifier.tell("ready", "READY=1")

    def end(self, status: str) -> None:
        """The process ends, for the reason in `status`; takes less than a second."""
        self._notifier.tell(status, "STOPPING=1")
        if self._answering is not None:
            self._answering.close()
        if self._presence is not None:
            with suppress(OSError):
                self._presence.leave()
