"""Settles each flag: reads its value from the command line or its variable, and tells faults."""

import re
from collections.abc import Iterator, Mapping, Sequence

from server.cli_argv import Given, near_variable, nearest
from server.cli_values import BadValue, Value
from server.config.rules import RULES, finding
from server.findings import Finding, Location
from server.flags import BY_FIELD, BY_VARIABLE, ENV_PREFIX, FLAGS, OTHER_VARIABLES, Flag
from server.render.escape import word

_SERVICE_LINK = re.compile(r"SERVER_(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")
_NO_PART = re.compile("[^0-9a-z]")
_SERVICE_PORT = re.compile(r"(tcp|udp|sctp)://")


class Settled:
    """The values so far and where they were given, by field, and the faults found."""

    def __init__(self) -> None:
        """Nothing is settled yet."""
        self.values: dict[str, Value | tuple[Value, ...]] = {}
        self.given: dict[str, Given] = {}
        self.faults: list[Finding] = []

    def refused(self, name: str) -> bool:
        """True when a finding already tells what is wrong with this flag's value."""
        flag = BY_FIELD[name]
        told = {place.flag for fault in self.faults for place in fault.locations}
        return not told.isdisjoint((*flag.spellings, flag.variable))


def settle(typed: Sequence[Given], environ: Mapping[str, str]) -> Settled:
    """Each flag's value: from the command line, else from its variable."""
    settled = Settled()
    for flag in FLAGS:
        places = [given for given in typed if given.flag is flag]
        if not places and flag.env and _is_given(flag.variable, environ):
            places = [Given(flag, flag.variable, environ[flag.variable], from_env=True)]
        _settle_flag(flag, places, settled)
    return settled


def _is_given(variable: str, environ: Mapping[str, str]) -> bool:
    """True for a variable that somebody set, other than Kubernetes."""
    return variable in environ and not _is_service(variable, environ[variable])


def _is_service(variable: str, value: str) -> bool:
    """True for what Kubernetes sets in every pod beside a Service that is called "server"."""
    if variable == "SERVER_PORT":
        return _SERVICE_PORT.match(value) is not None
    return _SERVICE_LINK.fullmatch(variable) is not None


def _settle_flag(flag: Flag, places: Sequence[Given], settled: Settled) -> None:
    """Read one flag at each place where it is given.

    Two different values are a fault, except of a flag that repeats: it keeps all, in order.
    """
    first: Given | None = None
    for given in places:
        try:
            value = _read(given)
        except BadValue as error:
            settled.faults.append(_bad_value(given, error))
            continue
        if flag.repeats:
            kept = settled.values.get(flag.field, ())
            settled.values[flag.field] = (*(kept if isinstance(kept, tuple) else ()), value)
            settled.given.setdefault(flag.field, given)
        elif first is None:
            first = given
            settled.values[flag.field], settled.given[flag.field] = value, given
        elif value != settled.values[flag.field]:
            settled.faults.append(_conflict(first, given))


def _read(given: Given) -> Value:
    """The value of one flag at one place. Raises BadValue."""
    if given.text is None:
        raise BadValue("has no value")
    if not given.text.strip():
        raise BadValue("is empty")
    return given.flag.read(given.text)


def _bad_value(given: Given, problem: BadValue) -> Finding:
    """SD704 or SD706: the text that was given is no value of the flag."""
    missing = given.text is None or not given.text.strip()
    message = f"{given.spelling} {problem}"
    if not missing:
        message = f"{given.spelling} is {word(given.text or '')}, {problem}"
    example = _meant(given.text or "", problem.spelled) or given.flag.example
    if given.from_env:
        fix = f"{given.spelling}={example}, or unset it"
        return finding("SD706", message, given.location, fix=fix)
    fix = f"{given.flag.name} {example}, for example; it takes {given.flag.metavar}"
    return finding("SD704", message, given.location, fix=fix)


def _meant(text: str, spelled: Mapping[str, str]) -> str | None:
    """The value that was probably meant: the first with a part of this name, else the nearest.

    GPUs are listed by size, and a name without one (l4) is the smallest of those that have it.
    """
    folded = text.lower()
    bare = _NO_PART.sub("", folded)
    for name, value in spelled.items():
        parts = name.split("-")
        ends = range(1, len(parts) + 1)
        if bare and any(bare == "".join(parts[begin:end]) for end in ends for begin in range(end)):
            return value
    near = nearest(folded, spelled)
    return None if near is None else spelled[near]


def _conflict(first: Given, second: Given) -> Finding:
    """SD705: one setting, two values."""
    if first.flag.is_switch:
        message = f"{first.spelling} and {second.spelling} are both given"
        return finding("SD705", message, first.location, second.location)
    sides = " and ".join(f"{g.spelling} is {word(g.text or '')}" for g in (first, second))
    return finding("SD705", f"{sides}, for one setting", first.location, second.location)


def unknown_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """SD604 for each SERVER_* variable that nothing reads. Its value may be a secret."""
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or name in BY_VARIABLE or name in OTHER_VARIABLES:
            continue
        if _is_service(name, environ[name]):
            continue
        near = near_variable(name)
        fix = f"did you mean {near}? else unset it" if near else "unset it"
        place = Location("env", flag=name, source=f"env {name}", has_value=False)
        message = f"{word(name)} is not a variable of this server"
        yield finding("SD604", message, place, fix=fix)


def rule_id(text: str) -> str | None:
    """The id of the rule that `text` names, by id (any case) or by kebab name."""
    named = {rule.name: rule.id for rule in RULES.values()}
    return text.upper() if text.upper() in RULES else named.get(text.lower())


def no_rule(given: Given) -> Finding:
    """SD704: --explain names no rule."""
    text = given.text or ""
    near = nearest(text.upper(), RULES) or nearest(text.lower(), (r.name for r in RULES.values()))
    fix = f"did you mean {near}?" if near else "python -m server --list-rules lists them"
    return finding("SD704", f"--explain is {word(text)}, not a rule", given.location, fix=fix)
