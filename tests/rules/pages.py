"""Writes docs/rules/: one page for each rule with what its example tells, and an index.

`python -m tests.rules.pages` writes them, and messages.txt with the same messages in the other
formats; with --check it only says which are stale (exit 1).
"""

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from server.config.rules import RULES
from server.findings import Finding, Rule, Severity
from server.render.style import Style
from server.render.text import render_finding
from tests.rules.example import Case, Example
from tests.rules.executed import execute
from tests.rules.gate_run import BASES
from tests.rules.messages import MESSAGES, messages
from tests.rules.registry import EXAMPLES

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "rules"
COMMAND = "python -m tests.rules.pages"
INDEX = "README.md"
_GROUPS: Mapping[str, str] = {
    "1": "Configuration files",
    "2": "Draft and target together",
    "3": "Not served",
    "4": "Weight files and tensors",
    "5": "Memory",
    "6": "The machine",
    "7": "Flags and environment variables",
}
_INTRO = f"""# Rules

Each rule has a page with an input that fires it and the nearest input that does not. The tests
run both inputs. `{COMMAND}` writes these pages from what the runs tell; no page is edited by hand.

`python -m server --explain SD201` prints a rule's text. Only an error has an exit code; where a run
tells several, [exit codes](../exit-codes.md) says which one decides.
"""
_BASES = """## Base files

The examples of SD1xx to SD3xx start from these files and change a few values. They are bare config
files, so that no weights are looked for. They run with an empty model cache at `hf/`.
"""


def pages() -> dict[str, str]:
    """Every page's file name and text."""
    made = {INDEX: index()}
    for example in EXAMPLES:
        made[f"{example.rule}.md"] = page(RULES[example.rule], example)
    return made


def page(rule: Rule, example: Example) -> str:
    """The page of one rule."""
    fires, near = execute(example)
    source = " ".join(map(_linked, rule.source.split()))
    parts = [
        f"# {rule.id} {rule.name}",
        f"Severity: {rule.severity.value}. {_exit(rule)}",
        f"## What must hold\n\n{_sentence(rule.summary)}",
        f"## Why\n\n{_sentence(rule.why)}",
        _section("An input that fires it", example.fires, _printed(rule, fires)),
        _section("The nearest input that passes", example.near, _rest(rule, near)),
        f"## Fix\n\n{_sentence(rule.fix)}",
        f"## Source\n\n{source}",
        f"[All rules]({INDEX})",
    ]
    return "\n\n".join(parts) + "\n"


def index() -> str:
    """The index: a table for each hundred of rules, and the files that examples start from."""
    parts = [_INTRO]
    for first, rules in groupby(sorted(RULES.values()), key=lambda rule: rule.id[2]):
        rows = "\n".join(map(_row, rules))
        head = "| id | name | severity | exit code | what must hold |\n|---|---|---|---|---|"
        parts.append(f"## SD{first}xx: {_GROUPS[first]}\n\n{head}\n{rows}\n")
    parts.append(_BASES)
    parts += [f"### {base.id}\n\n{base.title}.\n\n```json\n{base.text}```\n" for base in BASES]
    return "\n".join(parts)


def stale(folder: Path, made: Mapping[str, str]) -> list[str]:
    """The files below `folder` that are missing, too many, or not as made now."""
    there = {path.name: path.read_text() for path in folder.glob("*")}
    names = sorted({*there, *made})
    return [name for name in names if there.get(name) != made.get(name)]


def write(folder: Path, made: Mapping[str, str]) -> None:
    """Make `folder` hold exactly the pages `made`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in stale(folder, made):
        if name in made:
            (folder / name).write_text(made[name])
        else:
            (folder / name).unlink()


def main(argv: Sequence[str]) -> int:
    """Write the pages, or with --check name the stale ones; returns the exit code."""
    made = pages()
    changed = stale(FOLDER, made)
    if not MESSAGES.exists() or MESSAGES.read_text() != messages():
        changed.append(MESSAGES.name)
    if "--check" not in argv:
        write(FOLDER, made)
        MESSAGES.write_text(messages())
    sys.stdout.writelines(f"{'stale' if '--check' in argv else 'written'}: {n}\n" for n in changed)
    return int("--check" in argv and bool(changed))


def _section(title: str, case: Case, told: str) -> str:
    return f"## {title}\n\n{case.told}\n\n{told}"


def _printed(rule: Rule, findings: Sequence[Finding]) -> str:
    """The rule's findings as the run printed them, less what the page says anyway."""
    own = [found for found in findings if found.rule == rule.id]
    blocks = [
        render_finding(f._replace(why="", docs="", fix="" if f.fix == rule.fix else f.fix), Style())
        for f in own
    ]
    others = _others(rule, findings)
    also = f"\n\nThe same run also tells {others}." if others else ""
    return "```text\n" + "\n".join(blocks) + f"\n```{also}"


def _rest(rule: Rule, findings: Sequence[Finding]) -> str:
    others = _others(rule, findings)
    return f"This rule is kept; the run tells {others}." if others else "The run tells no finding."


def _others(rule: Rule, findings: Sequence[Finding]) -> str:
    """The other rules of a run, each once, with links."""
    told = [f"[{f.rule}]({f.rule}.md) ({f.severity.value})" for f in findings if f.rule != rule.id]
    return ", ".join(dict.fromkeys(told))


def _row(rule: Rule) -> str:
    summary = rule.summary.replace("|", "\\|")
    code = _code(rule)
    return f"| [{rule.id}]({rule.id}.md) | {rule.name} | {rule.severity} | {code} | {summary} |"


def _code(rule: Rule) -> str:
    return str(int(rule.exit_code)) if rule.severity is Severity.ERROR else "none"


def _exit(rule: Rule) -> str:
    if rule.severity is not Severity.ERROR:
        return f"Exit code: none, since a {rule.severity} refuses nothing."
    return f"[Exit code](../exit-codes.md): {_code(rule)} ({rule.exit_code.name})."


def _sentence(text: str) -> str:
    # A key such as head_dim and a command keep their spelling.
    first, second = text.split()[:2]
    is_word = first.isalpha() and not second.startswith("-")
    return f"{text[0].upper() if is_word else text[0]}{text[1:]}."


def _linked(word: str) -> str:
    """A word of a source; an address becomes a link."""
    address = word.rstrip(";,")
    if not address.startswith("https://"):
        return word
    return f"<{address}>{word.removeprefix(address)}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
