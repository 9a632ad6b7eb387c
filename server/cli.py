"""The command line and the SERVER_* environment, read into `Options`. Standard library only.

Every fault is told in one pass, as findings with exit code 2; nothing here prints or exits.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from server import __version__
from server.cli_argv import make_parser, split
from server.cli_demands import demands, started_elsewhere
from server.cli_settle import Settled, no_rule, rule_id, settle, unknown_variables
from server.config.rules import RULES
from server.findings import JsonValue, Outcome, outcome_by_rule
from server.flags import BY_VARIABLE, DEFAULTS
from server.options import Options, fraction_text
from server.report import SettingFacts

_RULES = ("SD703", "SD704", "SD705", "SD706", "SD701", "SD708", "SD709", "SD604")


class Action(StrEnum):
    """What the command line asks for."""

    BOOT = "boot"
    HELP = "help"
    VERSION = "version"
    LIST_RULES = "list-rules"
    EXPLAIN = "explain"
    PRINT_SCHEMA = "print-schema"
    PRINT_CONFIG = "print-config"


# Answers that no setting changes, so that no variable is read for them.
_TIMELESS = (Action.EXPLAIN, Action.LIST_RULES, Action.PRINT_SCHEMA)


class Telling(NamedTuple):
    """How to tell the outcome. Known even when the rest of the command line is refused."""

    output_format: str = "text"
    report_file: Path | None = None
    report_html: Path | None = None
    junit_file: Path | None = None
    color: str = "auto"
    verbose: bool = False
    concise: bool = False
    termination_log: Path | None = None


class Parsed(NamedTuple):
    """One command line. `options` is None unless a boot was asked for and nothing was refused.

    `topic` is the rule id that --explain names. `settings` is what the report shows.
    """

    action: Action
    options: Options | None = None
    outcome: Outcome = Outcome()
    telling: Telling = Telling()
    topic: str = ""
    settings: Mapping[str, SettingFacts] = MappingProxyType({})


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Parsed:
    """Read the command line (without the program's name) and the environment. Never raises."""
    typed, faults = split(argv)
    asked = {given.flag.field for given in typed if given.text != "false"}
    for plain in (Action.HELP, Action.VERSION):
        if plain in asked:
            return Parsed(plain)
    answering = next((action for action in _TIMELESS if _field(action) in asked), None)
    settled = settle(typed, {} if answering else environ)
    settled.faults[:0] = faults
    if answering:
        return _answering(settled, answering)
    action = Action.PRINT_CONFIG if _field(Action.PRINT_CONFIG) in asked else Action.BOOT
    boots = action is Action.BOOT
    settled.faults += demands(settled, boots)
    settled.faults += started_elsewhere(settled, environ)
    settled.faults += unknown_variables(environ)
    outcome = outcome_by_rule(_RULES, settled.faults)
    options = _options(settled) if boots and not outcome.refused else None
    return Parsed(action, options, outcome, _telling(settled.values), settings=_settings(settled))


def answer(parsed: Parsed) -> str:
    """The text for standard output when no boot was asked for and nothing was refused."""
    # An answer is not a boot; a boot loads no page renderer.
    from server.render.config import config_text, schema_text
    from server.render.rules import explain, list_rules

    if parsed.action is Action.HELP:
        return help_text()
    if parsed.action is Action.VERSION:
        return f"draftgate {__version__}"
    if parsed.action is Action.EXPLAIN:
        return explain(RULES[parsed.topic])
    if parsed.action is Action.PRINT_SCHEMA:
        return schema_text()
    if parsed.action is Action.PRINT_CONFIG:
        return config_text(parsed.settings, parsed.telling.output_format)
    return list_rules(RULES.values())


def _field(action: Action) -> str:
    return action.value.replace("-", "_")


def help_text() -> str:
    """What --help prints: every flag with its default, its other names and its variable."""
    shown = {name: _shown(value) for name, value in DEFAULTS.items()}
    return make_parser(shown).format_help().rstrip()


def _shown(default: object) -> str:
    """A default as the help shows it; nothing for a switch and for "not set"."""
    if default is None or isinstance(default, bool | tuple):
        return ""
    return fraction_text(default) if isinstance(default, Fraction) else str(default)


def _answering(settled: Settled, action: Action) -> Parsed:
    """An answer without settings: the topic of --explain, or why there is no such rule."""
    given = settled.given.get("explain")
    topic = rule_id(given.text or "") if given else None
    if given and topic is None:
        settled.faults.append(no_rule(given))
    return Parsed(
        action, None, outcome_by_rule(_RULES, settled.faults), _telling(settled.values), topic or ""
    )


def _telling(values: Mapping[str, Any]) -> Telling:
    """How to tell the outcome, as far as the command line says so."""
    names = Telling._fields
    return Telling(**{name: value for name, value in values.items() if name in names})


def _options(settled: Settled) -> Options:
    """The options, once nothing is refused."""
    known = Options.__dataclass_fields__
    values: dict[str, Any] = {n: v for n, v in settled.values.items() if n in known}
    sources = {name: given.source for name, given in settled.given.items()}
    if values.get("max_model_len") == "auto":
        del values["max_model_len"]
        values["auto_max_model_len"] = True
    return Options(**values, sources=MappingProxyType(sources))


def _settings(settled: Settled) -> dict[str, SettingFacts]:
    """Every setting with its value and source, also when the command line is refused."""
    settings: dict[str, SettingFacts] = {}
    for flag in BY_VARIABLE.values():
        name = flag.field
        given = settled.given.get(name)
        value = settled.values.get(name, DEFAULTS.get(name))
        settings[name] = SettingFacts(_plain(value), given.source if given else "default")
    return settings


def _plain(value: object) -> JsonValue:
    """A setting as JSON has it: paths as text, fractions as exact decimals."""
    if isinstance(value, Fraction):
        return fraction_text(value)
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | bool | None) else str(value)
