"""What others do on the machine: processes with a port, other instances, broken packages."""

import json
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from server.findings import Finding, Outcome
from server.live.neighbours import Instance, arrive
from server.live.port import ADDRESS, answer, bind
from server.live.state import State
from tests.boots import make_log

_SHOWN = 8000
_FLAG = f"`--port {_SHOWN}`"
_OTHER = Instance(4242, "cpu host memory", "2026-01-01T00:00:00Z", 20 * 2**30)


class Taken(NamedTuple):
    """A port that another process listens on, or not any more."""

    taken: bool

    @property
    def told(self) -> str:
        who = "another process" if self.taken else "nobody"
        return f"{_FLAG}, where {who} listens on {ADDRESS}:{_SHOWN}."

    def judge(self, _folder: Path) -> Outcome:
        with socket.socket() as other:
            # Without a listener it keeps the port from all but those who ask in the same way.
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((ADDRESS, 0))
            number = other.getsockname()[1]
            if self.taken:
                other.listen()
            listening, outcome = bind(number)
        if listening is not None:
            listening.close()
        return _shown(outcome, number)


class Packages(NamedTuple):
    """The server started in a folder with a file `named`."""

    named: str

    @property
    def told(self) -> str:
        return f"{_FLAG}, started in a folder with a file `{self.named}`."

    def judge(self, folder: Path) -> Outcome:
        (folder / self.named).touch()
        listening, bound = bind(0)
        assert listening is not None, bound
        number = listening.getsockname()[1]
        with pytest.MonkeyPatch.context() as patch:
            # Where a package was imported once, nothing is looked for again; a new process looks.
            if self.named.endswith(".py"):
                for module in ("server.live.http", self.named.removesuffix(".py")):
                    patch.setitem(sys.modules, module, sys)  # so that it is put back as it was
                    patch.delitem(sys.modules, module)
            patch.syspath_prepend(folder)
            answering, outcome = answer(listening, State(make_log()))
        if answering is not None:
            answering.close()
        return _shown(outcome, number)


class Neighbour(NamedTuple):
    """An instance that is up on the same device, or one whose file is left."""

    up: bool

    @property
    def told(self) -> str:
        state = "is up" if self.up else "was killed"
        return f"`--device cpu`, where another instance on the CPU {state}."

    def judge(self, folder: Path) -> Outcome:
        if self.up:
            other, _ = arrive(folder, _OTHER)
        else:
            (folder / "4242-1.json").write_text(json.dumps(_OTHER._asdict()))
        own, outcome = arrive(folder, _OTHER._replace(pid=1))
        own.leave()
        if self.up:
            other.leave()
        return outcome


def _shown(outcome: Outcome, number: int) -> Outcome:
    """The outcome with the port that the page shows: which one is free is another each time."""
    return Outcome(tuple(_on_page(outcome.findings, str(number))), outcome.checks)


def _on_page(findings: Iterable[Finding], number: str) -> Iterable[Finding]:
    for found in findings:
        places = tuple(place._replace(value=_SHOWN) for place in found.locations)
        message = found.message.replace(number, str(_SHOWN))
        yield found._replace(message=message, locations=places)
