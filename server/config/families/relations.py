"""Rules about two fields of one draft, for families that are recognised and not served."""

from collections.abc import Iterator

from server.config.checks import Check
from server.config.families.common import Subject
from server.config.rules import finding
from server.findings import Finding


def told(subject: Subject, rule: str, message: str, *fields: str) -> Finding:
    """A finding that points at `fields`, each with the value that was read."""
    source, reading = subject.file.source, subject.reading
    places = (source.at(reading.pointers[f], getattr(reading.partial, f)) for f in fields)
    return finding(rule, message, *places)


def at_most(field: str, limit: str) -> Check[Subject]:
    """SD108 when `field` is stated and above `limit`."""

    def run(subject: Subject) -> Iterator[Finding]:
        value, most = (getattr(subject.reading.partial, name) for name in (field, limit))
        if value is not None and value > most:
            message = f"draft {field} is {value}, draft {limit} is {most}"
            yield told(subject, "SD108", message, field, limit)

    return Check("SD108", (field, limit), run)


def divides(field: str, whole: str) -> Check[Subject]:
    """SD119 when `field` is stated and does not divide `whole`."""

    def run(subject: Subject) -> Iterator[Finding]:
        part, size = (getattr(subject.reading.partial, name) for name in (field, whole))
        if part is not None and size % part:
            message = f"draft {whole} is {size}, no multiple of {field} {part}"
            yield told(subject, "SD119", message, whole, field)

    return Check("SD119", (field, whole), run)


def together(*fields: str) -> Check[Subject]:
    """SD105 for each of `fields` that is missing while another one is stated."""

    def run(subject: Subject) -> Iterator[Finding]:
        file = subject.file
        places = [place for field in fields for place in file.both(field)]
        stated = [place for place in places if place.value is not None]
        keys = {place.pointer.rpartition("/")[2] for place in stated}
        for field in fields if stated else ():
            if field not in keys:
                beside = stated[0]
                message = f"draft {field} is missing, {beside.name} is {beside.shown}"
                near = file.source.near(subject.reading.pointers[field])
                yield finding("SD105", message, near, file.at(beside))

    return Check("SD105", (), run)
