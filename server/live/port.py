"""The port of --port: bound before the load, so that one that is taken ends the boot at once."""

import socket
from typing import TYPE_CHECKING

from server.config.rules import finding
from server.findings import Location, Outcome, outcome_of
from server.limits import pass_on_limit
from server.live.state import State

if TYPE_CHECKING:
    from server.live.http import Answering

ADDRESS = "127.0.0.1"
QUEUE = 128
PATHS = ("/health", "/ready", "/report", "/metrics")


def bind(number: int) -> tuple[socket.socket | None, Outcome]:
    """A socket that listens on port `number` of the loopback address; 0 takes any that is free.

    None comes only with an error (SD610).
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A port is free again as soon as its last owner has ended.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, number))
        listening.listen(QUEUE)
    except OSError as error:
        listening.close()
        message = f"--port is {number}, and {ADDRESS}:{number} cannot be opened: {error.strerror}"
        return None, outcome_of("SD610", (finding("SD610", message, _flag(number)),))
    return listening, outcome_of("SD610", ())


def answer(listening: socket.socket, state: State) -> tuple["Answering | None", Outcome]:
    """What answers on `listening` from now on. None comes only with an error (SD612)."""
    try:
        from server.live.http import Answering
    except Exception as error:  # whatever a broken package raises
        listening.close()
        pass_on_limit(error)
        message = f"what answers on --port cannot be imported: {type(error).__name__}: {error}"
        place = Location("flag", flag="--port", has_value=False)
        return None, outcome_of("SD612", (finding("SD612", message, place),))
    return Answering(listening, state), outcome_of("SD612", ())


def _flag(number: int) -> Location:
    return Location("flag", flag="--port", value=number)
