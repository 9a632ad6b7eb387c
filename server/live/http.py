"""What answers on the port. Needs the extra `http`; imported only where --port is given."""

import asyncio
import json
import logging
import socket
import threading

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from server.live.metrics import CONTENT_TYPE, metrics_text
from server.live.port import ADDRESS, PATHS, QUEUE
from server.live.state import State
from server.render.console import Console
from server.render.escape import visible

# A page in a browser on this machine may have a name of its own lead to the loopback address.
_HOSTS = (ADDRESS, "localhost")
_MOST_CONNECTIONS = 64
_PATIENCE_S = 0.8


class Connection(H11Protocol):
    """One client. Where there are too many, the one that came first has had its time.

    Clients that say nothing, or do not read, then keep neither a probe out nor the load from
    opening files.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the client, and end the oldest one that is too many."""
        self.since_s = self.loop.time()
        super().connection_made(transport)
        others = (one for one in self.connections if isinstance(one, Connection))
        open_ones = [one for one in others if not one.transport.is_closing()]
        if len(open_ones) > _MOST_CONNECTIONS:
            min(open_ones, key=lambda one: one.since_s).transport.abort()


class Answering:
    """Answers on a socket that listens, in a thread of its own, until `close`."""

    def __init__(self, listening: socket.socket, state: State) -> None:
        """Answer from `state`; requests are told with --verbose only."""
        console = state.log.console
        _tell_in(console)
        config = Config(
            make_app(state),
            loop="asyncio",
            http=Connection,
            backlog=QUEUE,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="info",
            access_log=console.style.verbose,
            server_header=False,
            proxy_headers=False,
        )
        self.number: int = listening.getsockname()[1]
        self._server = Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listening],), name="port", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer no more. Returns in less than a second, whoever still waits for an answer."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(_PATIENCE_S)


def make_app(state: State) -> Starlette:
    """The four endpoints. All are read-only, and none waits for anything."""
    endpoints = Endpoints(state)
    answers = (endpoints.health, endpoints.ready, endpoints.report, endpoints.metrics)
    routes = [Route(path, told) for path, told in zip(PATHS, answers, strict=True)]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS, www_redirect=False)
    elsewhere = {404: _elsewhere, 405: _elsewhere}
    return Starlette(routes=routes, middleware=[hosts], exception_handlers=elsewhere)


async def _elsewhere(request: Request, error: Exception) -> Response:
    """What is answered instead, as JSON where that is asked for; nothing of the request is in it.

    Raises `error` where it is none of HTTP's.
    """
    if not isinstance(error, HTTPException):
        raise error
    what = error.detail.lower()
    if "json" in request.headers.get("accept", ""):
        body = {"error": what, "paths": PATHS}
        return JSONResponse(body, error.status_code, headers=error.headers)
    kind = "GET and HEAD of " if error.status_code == 405 else ""
    text = f"{what}; this port answers {kind}{' '.join(PATHS)}\n"
    return PlainTextResponse(text, error.status_code, headers=error.headers)


class Endpoints:
    """One method for each path."""

    def __init__(self, state: State) -> None:
        """Answer with what `state` knows when it is asked."""
        self._state = state

    async def health(self, _: Request) -> Response:
        """200: the process lives, and what answers is not stuck."""
        return PlainTextResponse("ok\n")

    async def ready(self, _: Request) -> Response:
        """200 once models and KV pool are held, 503 before; the body names the phase."""
        state = self._state
        body = {"ready": state.ready, "phase": state.phase}
        return JSONResponse(body, 200 if state.ready else 503)

    async def report(self, _: Request) -> Response:
        """The JSON report as it stands."""
        text = json.dumps(self._state.document(), indent=2)
        return Response(f"{text}\n", media_type="application/json")

    async def metrics(self, _: Request) -> Response:
        """The figures in the text format of Prometheus."""
        return Response(metrics_text(self._state), headers={"content-type": CONTENT_TYPE})


class _ToConsole(logging.Handler):
    """What uvicorn tells, where everything else is told."""

    def __init__(self, console: Console, level: int) -> None:
        super().__init__(level)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        # What a client sent is in it: no secret of a query, nothing that a terminal obeys.
        self._console.line("\n".join(map(visible, self.format(record).splitlines())))


def _tell_in(console: Console) -> None:
    # Of its own doings only faults; requests are asked for by `access_log`. What asyncio has to
    # tell is a client for which no descriptor was left.
    for name, level in (
        ("uvicorn.error", logging.ERROR),
        ("uvicorn.access", logging.INFO),
        ("asyncio", logging.CRITICAL),
    ):
        logger = logging.getLogger(name)
        logger.handlers = [_ToConsole(console, level)]
        logger.propagate = False
