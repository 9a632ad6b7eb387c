"""Which top-level keys of a target's config.json are known: read, harmless, or neither (SD111)."""

from collections.abc import Iterator
from itertools import islice

from server.config.backbone_keys import BACKBONE_KEYS, INERT_KEYS
from server.config.rules import finding
from server.config.strict_json import JsonObject
from server.config.values import Source, pointer, shorten
from server.findings import Finding, Severity

_TOLD = 30
_READ: frozenset[str] = BACKBONE_KEYS | {"architectures", "model_type", "tie_word_embeddings"}


def ignored_keys(raw: JsonObject, source: Source, strict: bool) -> Iterator[Finding]:
    """SD111 for each top-level key that nothing reads and that is not known to be harmless.

    A null states nothing. A note, or an error with `strict`.
    """
    severity = Severity.ERROR if strict else None
    unknown = [key for key in raw if raw[key] is not None and key not in _READ | INERT_KEYS]
    for key in islice(unknown, _TOLD):
        message = f"{source.role} key {shorten(key)} is ignored"
        yield finding("SD111", message, source.at(pointer(key), raw[key]), severity=severity)
    if len(unknown) > _TOLD:
        message = f"{source.role} has {len(unknown) - _TOLD} more such keys"
        yield finding("SD111", message, source.near(""), severity=severity)
