"""Values as people see them: short, and never turned into something else."""

import json

import pytest

from server.config.values import Source, clip, kind, pointer, same, shorten
from server.findings import JsonValue


def test_pointer_escapes_and_cuts() -> None:
    assert pointer() == ""
    assert pointer("a/b", 3, "c~d") == "/a~1b/3/c~0d"
    assert len(pointer("k" * 10**6)) < 200


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, ["y" * 500] * 5000, {f"k{i}": [i] * 900 for i in range(5000)}, 10**290],
)
def test_large_values_are_shortened(value: object) -> None:
    assert len(shorten(value)) < 150  # type: ignore[arg-type]
    assert len(json.dumps(clip(value))) < 20_000  # type: ignore[arg-type]


def test_small_values_are_shown_whole() -> None:
    assert shorten({"a": [1, True, None, "x"]}) == '{"a": [1, true, null, "x"]}'
    assert clip(float("nan")) == "nan"
    assert clip({"a": {"b": {"c": {"d": 1}}}}) == {"a": {"b": {"c": "an object of 1 keys"}}}


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        ([1, 2], [1, 2], True),
        ([1], [True], False),
        ("1", 1, False),
        (None, None, True),
    ],
)
def test_same_is_json_equality(left: object, right: object, equal: bool) -> None:
    assert same(left, right) is equal  # type: ignore[arg-type]


def test_kind_names_json_types() -> None:
    values: tuple[JsonValue, ...] = (None, True, 1, 1.5, "x", [], {})
    names = ["null", "boolean", "integer", "number", "string", "list", "object"]
    assert [kind(v) for v in values] == names


def test_locations_hold_cut_values() -> None:
    source = Source("draft", "c.json")
    assert source.at("/a", [1]).value == [1]
    assert source.near("/a").has_value is False
    assert len(str(source.at("/a", "x" * 10**6).value)) < 200
