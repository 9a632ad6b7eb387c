"""Splits a command line into flags with their texts, and tells what is no flag of this server.

argparse does the splitting; it never exits, and values are judged later, so that one run tells
every fault.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn

from server.cli_foreign import FOREIGN, FOREIGN_SWITCHES
from server.config.rules import finding
from server.findings import Finding, Location
from server.flags import BY_SPELLING, BY_VARIABLE, ENV_PREFIX, FLAGS, OTHER_VARIABLES, Flag
from server.render.escape import word


class Given(NamedTuple):
    """One flag as it was given. `text` is None where a value is missing."""

    flag: Flag
    spelling: str
    text: str | None
    from_env: bool = False

    @property
    def source(self) -> str:
        """Where it was given, in words."""
        return f"{'env' if self.from_env else 'flag'} {self.spelling}"

    @property
    def location(self) -> Location:
        """Where it was given, for a finding."""
        shown = None if self.flag.is_switch and not self.from_env else self.text
        return Location(
            role="env" if self.from_env else "flag",
            flag=self.spelling,
            value=shown,
            source=self.source,
            has_value=shown is not None,
        )


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        """Raise ArgumentError with `message`."""
        raise argparse.ArgumentError(None, message)


class _Record(argparse.Action):
    """Keeps every occurrence of a flag, in order, with the spelling that was typed."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[str] | None,
        option_string: str | None = None,
    ) -> None:
        """Append one `Given` to `namespace.given`."""
        spelling = option_string or self.option_strings[0]
        flag = BY_SPELLING[spelling]
        text = values if isinstance(values, str) else None
        if flag.is_switch:
            text = "false" if spelling == flag.negation else "true"
        namespace.given.append(Given(flag, spelling, text))


def _help_of(flag: Flag, default: str) -> str:
    """The help of one flag: what it does, its default, other spellings, its variable."""
    remarks = [f"default: {default}"] if default else []
    remarks += [f"also {', '.join(flag.aliases)}"] if flag.aliases else []
    remarks += [f"{flag.negation} turns it off"] if flag.negation else []
    remarks += [flag.variable] if flag.env else []
    text = f"{flag.help} [{'; '.join(remarks)}]" if remarks else flag.help
    return text.replace("%", "%%")


def make_parser(defaults: Mapping[str, str] | None) -> argparse.ArgumentParser:
    """The parser of the flag table, or, with the texts of the defaults by field, of its help."""
    parser = _Parser(
        prog="python -m server",
        usage="python -m server --target NAME|PATH [--draft NAME|PATH] [flags]",
        description="Judge a draft against its target, load both, and size the KV pool.",
        epilog="A variable in capitals does the same as its flag; the flag wins.",
        allow_abbrev=False,
        add_help=False,
        exit_on_error=False,
    )
    groups = {
        name: parser.add_argument_group(name)
        for name in dict.fromkeys(flag.group for flag in FLAGS)
    }
    for flag in FLAGS:
        shown = _help_of(flag, (defaults or {}).get(flag.field, ""))
        # A missing value is our finding; argparse would stop at the first.
        wants = "?" if defaults is None else None
        hidden = [s for s in flag.spellings if s != flag.name]
        for names, text in (([flag.name], shown), (hidden, argparse.SUPPRESS)):
            if names:
                groups[flag.group].add_argument(
                    *names,
                    action=_Record,
                    default=argparse.SUPPRESS,
                    dest=flag.field,
                    nargs=0 if flag.is_switch else wants,
                    metavar=flag.metavar or None,
                    help=text,
                )
    return parser


def split(argv: Sequence[str]) -> tuple[list[Given], list[Finding]]:
    """The flags that were typed, and a finding for each argument that is none."""
    wanted, faults = _without_switch_values(argv)
    namespace = argparse.Namespace(given=[])
    try:
        _, extras = make_parser(None).parse_known_args(wanted, namespace)
    except argparse.ArgumentError as error:
        return namespace.given, [*faults, finding("SD703", f"the flags cannot be read: {error}")]
    known_texts = {given.text for given in namespace.given}
    faults += [_fault(token, known_texts) for token in _unknown(wanted, extras)]
    return namespace.given, faults


def _without_switch_values(argv: Sequence[str]) -> tuple[list[str], list[Finding]]:
    """`argv` without tokens such as --check=yes, and a finding for each of them.

    argparse stops at the first of these, and the faults behind it would go untold.
    """
    kept: list[str] = []
    faults: list[Finding] = []
    for at, token in enumerate(argv):
        if token == "--":
            return kept + list(argv[at:]), faults
        name, equals, text = token.partition("=")
        flag = BY_SPELLING.get(name)
        if flag is None or not (flag.is_switch and equals):
            kept.append(token)
            continue
        message = f"{name} takes no value, {word(text)} was given"
        place = Location("flag", flag=name, value=text, source=f"flag {name}")
        fix = " or ".join(filter(None, (flag.name, flag.negation)))
        faults.append(finding("SD704", message, place, fix=fix))
    return kept, faults


def _unknown(argv: Sequence[str], extras: Iterable[str]) -> Iterator[str]:
    """The leftover tokens that are faults: not the values of unknown flags, nor repetitions."""
    told: set[str] = {"--"}
    at, value_at = 0, -1
    for token in extras:
        at = argv.index(token, at) if token in argv[at:] else at
        is_flag = token.startswith("-") and token != "-"
        if is_flag:
            bare = "=" not in token and normalised(token) not in FOREIGN_SWITCHES
            value_at = at + 1 if bare else -1
        if (is_flag or at != value_at) and token not in told:
            told.add(token)
            yield token
        at += 1


def normalised(token: str) -> str:
    """A flag as this server spells flags: no value, dashes for underscores, lower case."""
    name = token.partition("=")[0]
    return name.replace("_", "-").lower()


def _fault(token: str, known_texts: Iterable[str | None]) -> Finding:
    """The finding for one argument that is no flag of this server."""
    if not token.startswith("-"):
        place = Location("flag", flag=token, has_value=False)
        fix = None if token in known_texts else f"--target {word(token)}, if it names the target"
        if f"--{token}" in BY_SPELLING:
            fix = f"did you mean --{token}?"
        return finding("SD703", f"{word(token)} stands behind no flag", place, fix=fix)
    name = token.partition("=")[0]
    place = Location("flag", flag=name, has_value=False, source=f"flag {name}")
    foreign = FOREIGN.get(normalised(token))
    if foreign is not None:
        return finding("SD703", f"{name} {foreign.reason}", place, fix=foreign.fix)
    near = near_flag(token)
    fix = f"did you mean {near}?" if near else None
    return finding("SD703", f"{word(name)} is not a flag of this server", place, fix=fix)


def near_flag(token: str) -> str | None:
    """The flag that was probably meant."""
    long = {name.removeprefix("--"): name for name in BY_SPELLING}
    near = nearest(normalised(token).removeprefix("--"), long)
    return long[near] if near else None


def near_variable(name: str) -> str | None:
    """The variable that was probably meant; SERVER_MODEL is --model, so SERVER_TARGET."""
    bare = name.removeprefix(ENV_PREFIX)
    flag = BY_SPELLING.get("--" + normalised(bare))
    if flag is not None:
        return flag.variable if flag.env else None
    known = (name.removeprefix(ENV_PREFIX) for name in (*BY_VARIABLE, *OTHER_VARIABLES))
    near = nearest(bare.upper(), known)
    return ENV_PREFIX + near if near else None


def nearest(text: str, names: Iterable[str]) -> str | None:
    """The name most like `text`, or None when none is near."""
    known = tuple(names)
    if text in known:
        return text
    # Only a refusal needs it, and it costs a millisecond to load.
    from difflib import get_close_matches

    found = get_close_matches(text, known, n=1, cutoff=0.7)
    return found[0] if found else None
