"""What the example of each rule tells, in the formats that its page does not show."""

from pathlib import Path

from server.render.json import finding_facts, json_text
from server.render.lines import annotation, concise_line
from server.render.style import Style
from tests.rules.example import Example
from tests.rules.executed import execute
from tests.rules.registry import EXAMPLES

MESSAGES = Path(__file__).with_name("messages.txt")


def messages() -> str:
    """For each rule the first finding of its example: one line, annotation, JSON."""
    return "\n".join(_message(example) for example in EXAMPLES)


def _message(example: Example) -> str:
    found = next(f for f in execute(example).fires if f.rule == example.rule)
    facts = finding_facts(found)
    del facts["why"], facts["docs"]  # the rule's own, which its page has
    lines = (concise_line(found, Style()), annotation(found, Style()), json_text(facts))
    return "\n".join((example.rule, *(f"  {line}" for line in lines), ""))
