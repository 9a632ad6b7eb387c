"""The rule registry: the one place that knows each rule's id, name, grounds and exit code.

Checks, `--explain`, `--list-rules` and the JSON report all read it. Ids are append-only and
are never reused. 1xx configuration files, 2xx pair, 3xx not supported, 4xx tensors and weight
files, 5xx memory, 6xx environment, 7xx flags.
"""

from collections.abc import Mapping
from types import MappingProxyType

from server.config.rules import (
    dspine,
    environment,
    files,
    flags,
    memory,
    pair,
    tensors,
    unsupported,
)
from server.findings import Finding, Location, Rule, Severity

_TABLES = (files, pair, unsupported, dspine, tensors, memory, environment, flags)

RULES: Mapping[str, Rule] = MappingProxyType(
    {rule.id: rule for table in _TABLES for rule in table.RULES}
)


def finding(
    rule_id: str,
    message: str,
    *locations: Location,
    fix: str | None = None,
    severity: Severity | None = None,
) -> Finding:
    """A finding of rule `rule_id`. `message` is one clause that holds both values.

    `fix` replaces the rule's general advice by one that works for these values.
    Raises KeyError when the rule is not in the registry.
    """
    rule = RULES[rule_id]
    return Finding(
        rule=rule.id,
        name=rule.name,
        severity=severity or rule.severity,
        message=message,
        locations=locations,
        why=rule.why,
        fix=fix or rule.fix,
        docs=f"python -m server --explain {rule.id}",
        exit_code=rule.exit_code,
    )
