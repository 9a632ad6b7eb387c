"""Leaves secrets out of text before it is shown, cut or written. Standard library only."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache

_HIDDEN = "***"
_SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY")
# HF_TOKEN, APIKEY and SECRETS_1 are such names; KEYCLOAK_URL and TOKENIZERS_PARALLELISM are none.
_SECRET_NAME = rf"({'|'.join(_SECRET_WORDS)})S?([_0-9]|$)"
# What such a variable names is a place, and the secret is in it.
_PLACE_NAMES = ("_PATH", "_FILE", "_DIR")
# A shorter value ("none", "EMPTY", "false") would be hidden in words that are no secret.
_MIN_CHARS = 8
# Texts without any of these hold no secret that has a form; nearly all are done here.
_MARKS = (
    "://", "hf_", "authorization", "bearer ", "token=", "secret=", "password=", "passwd=", "key=",
    "signature=",
)  # fmt: skip
_FORMS = (
    # scheme://user:password@host; a password may hold a slash, and host:8000/a@b is none.
    # It is looked for so far, so that a file of a million addresses is read once.
    (r"(?<=://)(?:[^/\s]*@|[^/\s@:]{1,200}:(?![0-9]+/)[^\s@]{0,200}@)", f"{_HIDDEN}@"),
    # A Hugging Face token; names such as hf_config are none.
    (r"(?<![A-Za-z0-9])hf_(?:(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{8,}|[a-z]{16,})", _HIDDEN),
    # ?token=..., &X-Amz-Signature=...
    (
        r"(?i)([?&;#][\w.-]*(?:token|secret|password|passwd|key|signature)=)[^&;#\s\"'<>]+",
        rf"\g<1>{_HIDDEN}",
    ),
    # Authorization: Basic ..., and a bearer token alone.
    (
        r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:basic|bearer|digest|token)\s+)?)"
        r"[^\s\"',;]+",
        rf"\g<1>{_HIDDEN}",
    ),
    (r"(?i)(\bbearer\s+)[\w.~+/=-]{8,}", rf"\g<1>{_HIDDEN}"),
)


def redacted(text: str) -> str:
    """`text` with *** for each secret in it.

    Secrets are the credentials of an address, Hugging Face tokens, the values of query fields and
    headers that carry them, and what the environment's secret variables hold.
    """
    return without(text, _own_secrets())


def without(text: str, secrets: Iterable[str]) -> str:
    """`text` with *** for each of `secrets`, and for all that has the form of one."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    folded = text.lower()
    if any(mark in folded for mark in _MARKS):
        for form, told in _compiled():
            text = form.sub(told, text)
    return text


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the variables whose names say that they are secret, the longest first.

    Each is given as it is, and as it is quoted in JSON and in Python.
    """
    plain = [value for item in environ.items() for value in _secret(*item)]
    quoted = [write(value)[1:-1] for value in plain for write in (json.dumps, _unescaped, repr)]
    return tuple(sorted({*plain, *quoted}, key=len, reverse=True))


def _unescaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _secret(name: str, value: str) -> Iterable[str]:
    folded, text = name.upper(), value.strip()
    if len(text) < _MIN_CHARS or not any(word in folded for word in _SECRET_WORDS):
        return  # nearly all of them
    named = re.search(_SECRET_NAME, folded) and not folded.endswith(_PLACE_NAMES)
    # MAX_TOKENS=16777216 is a number of tokens.
    counts = text.isdecimal() and "TOKEN" in folded
    if named and not counts:
        yield text


@cache
def _own_secrets() -> tuple[str, ...]:
    return secrets_of(os.environ)


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(form), told) for form, told in _FORMS)
