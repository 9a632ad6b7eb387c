"""What is wrong with a report, by the schema that is shipped."""

import json
from typing import Any

from jsonschema import Draft202012Validator

from server.render.config import SCHEMA

DOCUMENT: dict[str, Any] = json.loads(SCHEMA.read_text())
_VALIDATOR = Draft202012Validator(DOCUMENT)


def faults(document: Any) -> list[str]:  # noqa: ANN401
    """Each fault with its place; none for a valid report."""
    return [f"{error.json_path}: {error.message}" for error in _VALIDATOR.iter_errors(document)]
