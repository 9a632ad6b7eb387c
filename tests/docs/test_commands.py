"""Every command of the README and of docs/ is run as it is written, or is told why it is not."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.not_run import NOT_RUN
from tests.docs.pages import (
    LANGUAGES,
    PAGES,
    ROOT,
    Command,
    Output,
    blocks,
    commands,
    outputs,
)
from tests.docs.place import Place
from tests.docs.shown import missing_words, unlike

COMMANDS = [command for page in PAGES for command in commands(page)]
OUTPUTS = [output for page in PAGES for output in outputs(page)]
_RUN = re.compile(r"(SERVER_\w+=\S+ )*(python -m server|draftgate)( |$)")


def left_out(command: Command) -> list[str]:
    return [start for start in NOT_RUN if command.text.startswith(start)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.make(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_holds(page: Path) -> None:
    text = page.read_text()
    assert {block.language for block in blocks(text)} <= set(LANGUAGES)
    assert len(re.findall("^ *```", text, re.M)) == 2 * len(blocks(text))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.id)
def test_every_command_is_run_or_told_why_not(command: Command) -> None:
    run = bool(_RUN.match(command.text))
    assert run != bool(left_out(command)), command.text


def test_no_reason_is_left_over() -> None:
    assert set(NOT_RUN) == {start for command in COMMANDS for start in left_out(command)[:1]}


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if left_out(c)], ids=lambda command: command.id
)
def test_what_is_not_run_is_there(command: Command) -> None:
    for module in re.findall(r"python -m ([\w.]+)", command.text):
        assert find_spec(module), module
    for path in re.findall(r"(?<!\S)((?:tests|\.ci|benchmarks|deploy)/\S+)", command.text):
        assert (ROOT / path.partition("::")[0]).exists(), path


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if _RUN.match(c.text)], ids=lambda command: command.id
)
def test_a_command_exits_as_its_page_says(place: Place, command: Command) -> None:
    done = place.run(command)
    assert done.code == command.code, f"{command.text}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.command.id)
def test_a_command_prints_what_its_page_shows(place: Place, output: Output) -> None:
    done = place.run(output.command)
    if output.block.language == "json":
        assert unlike(json.loads(output.block.text), done.json) == ""
    else:
        assert missing_words(output.block.text, done.stderr + done.stdout) == ""
