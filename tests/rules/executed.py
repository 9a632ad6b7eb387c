"""Runs each example once and keeps what was told, with the folder's own path taken out."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from server.findings import Finding, JsonValue, Location, Severity
from tests.rules.example import Case, Example

Told = TypeVar("Told", str, str | None)


class Executed(NamedTuple):
    """The findings of both inputs of an example, in the order in which they were told."""

    fires: tuple[Finding, ...]
    near: tuple[Finding, ...]


@cache
def execute(example: Example) -> Executed:
    """What both inputs of `example` tell, each in an empty folder of its own."""
    return Executed(_findings(example.fires), _findings(example.near))


def errors(findings: tuple[Finding, ...]) -> set[str]:
    """The rules of which an error was told."""
    return {found.rule for found in findings if found.severity is Severity.ERROR}


def _findings(case: Case) -> tuple[Finding, ...]:
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        return tuple(_placeless(found, str(folder)) for found in case.run(folder))


def _placeless(found: Finding, folder: str) -> Finding:
    return found._replace(
        message=_without(found.message, folder),
        fix=_without(found.fix, folder),
        locations=tuple(_location(place, folder) for place in found.locations),
    )


def _location(place: Location, folder: str) -> Location:
    return place._replace(
        file=_without(place.file, folder),
        source=_without(place.source, folder),
        value=_value(place.value, folder),
    )


def _value(value: JsonValue, folder: str) -> JsonValue:
    if isinstance(value, str):
        return _without(value, folder)
    if isinstance(value, Mapping):
        return {key: _value(item, folder) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_value(item, folder) for item in value]
    return value


def _without(text: Told, folder: str) -> Told:
    return text and text.replace(f"{folder}/", "").replace(folder, ".")
