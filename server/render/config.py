"""What --print-config and --print-schema print."""

from collections.abc import Mapping
from pathlib import Path

from server.render.json import json_text, settings_facts, version_facts
from server.render.style import Style
from server.render.text import settings_lines
from server.report import SettingFacts

SCHEMA = Path(__file__).with_name("report.schema.json")


def schema_text() -> str:
    """The JSON Schema (draft 2020-12) of the report, as it is shipped."""
    return SCHEMA.read_text(encoding="utf-8").rstrip()


def config_text(settings: Mapping[str, SettingFacts], output_format: str) -> str:
    """Every setting with its value and its source: as text, or as the report has them."""
    if output_format == "json":
        return json_text({**version_facts(), "settings": settings_facts(settings)}, indent=2)
    return settings_lines(settings, Style())
