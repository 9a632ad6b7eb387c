"""Asks a port on this machine, as a probe does."""

import http.client
import json
from typing import Any, NamedTuple

PATIENCE_S = 30


class Answer(NamedTuple):
    status: int
    kind: str
    text: str

    @property
    def json(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.text)
        return parsed


def ask(
    port: int, path: str, method: str = "GET", host: str | None = None, accept: str = "*/*"
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        named = {} if host is None else {"Host": host}
        connection.request(method, path, headers={"Accept": accept, **named})
        got = connection.getresponse()
        return Answer(got.status, got.headers.get("content-type", ""), got.read().decode())
    finally:
        connection.close()
