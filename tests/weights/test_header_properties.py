"""No bytes can break the header reader, and it never accepts what the package refuses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open

from server.weights.files import WeightFault
from server.weights.index import read_inventory
from tests.weights.headers import read_header
from tests.weights.make import INDEX, raw_file

GOOD = raw_file(
    {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
        "b": {"dtype": "F32", "shape": [4], "data_offsets": [12, 28]},
    },
    28,
)
SETTINGS = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The good file with up to three bytes changed to what headers are made of."""
    content = bytearray(GOOD)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(content) - 29))
        content[place] = draw(st.sampled_from(b'0123456789-.eE{}[]",: \x00\xff'))
    return bytes(content)


def outcomes(path: Path) -> Iterator[bool]:
    """Whether this reader takes the file, and whether the package does."""
    try:
        read_header(path)
        yield True
    except WeightFault:
        yield False
    try:
        with safe_open(path, framework="pt"):
            yield True
    except SafetensorError:
        yield False


@SETTINGS
@given(content=damaged())
def test_accepts_nothing_that_the_package_refuses(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    ours, theirs = outcomes(path)
    assert theirs or not ours


@SETTINGS
@given(content=st.binary(max_size=64) | st.binary(max_size=64).map(lambda b: raw_file(b, 4)))
def test_any_bytes_are_a_finding_at_most(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    inventory, outcome = read_inventory("draft", tmp_path)
    assert (inventory is None) == outcome.refused


@SETTINGS
@given(content=st.binary(max_size=64) | st.text(max_size=64).map(str.encode))
def test_any_index_is_a_finding_at_most(tmp_path: Path, content: bytes) -> None:
    (tmp_path / INDEX).write_bytes(content)
    inventory, outcome = read_inventory("draft", tmp_path)
    assert inventory is None
    assert outcome.refused


@pytest.mark.parametrize(
    "name", ["\ud800.safetensors", "x" * 5000 + ".safetensors", "é.safetensors"]
)
def test_any_file_name_is_a_finding_at_most(tmp_path: Path, name: str) -> None:
    escaped = name.encode("unicode_escape").decode().replace("\\xe9", "\\u00e9")
    (tmp_path / INDEX).write_text(f'{{"weight_map": {{"a": "{escaped}"}}}}')
    _, outcome = read_inventory("draft", tmp_path)
    assert [finding.rule for finding in outcome.findings] == ["SD406"]
