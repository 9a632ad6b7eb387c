"""Text from outside becomes one visible line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.findings import JsonValue
from server.render.escape import MAX_VALUE, shorten, show, visible, word


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("plain é 模", "plain é 模"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\r\n\tb\x7f", "a\\x0d\\x0a\\x09b\\x7f"),
        ("\u202e\u2066\u200b", "\\u202e\\u2066\\u200b"),
        ("\udc80", "\\udc80"),
        ("\U000e0001", "\\U000e0001"),
        ("https://user:pw@host/x@y", "https://***@host/x@y"),
        ("user@host", "user@host"),
    ],
)
def test_what_cannot_be_seen_is_made_visible(text: str, told: str) -> None:
    assert visible(text) == told


@settings(deadline=None)
@given(st.text())
def test_visible_text_is_one_printable_line(text: str) -> None:
    assert visible(text).isprintable()
    assert word(text).isprintable()
    assert word(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [("a/b", "a/b"), ("", '""'), ("a b", '"a b"'), ('a"b', '"a\\"b"'), ("a\nb", '"a\\nb"')],
)
def test_a_word_is_quoted_where_it_would_not_be_one(text: str, told: str) -> None:
    assert word(text) == told


def test_a_long_text_keeps_both_ends_and_its_length() -> None:
    assert shorten("a" * 40, 40) == "a" * 40
    short = shorten("a" * 500 + "z" * 500, 60)
    assert short == f"{'a' * 24}...{'z' * 15} (1000 characters)"
    assert len(short) <= 60


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(), inner, max_size=9),
)


@settings(deadline=None)
@given(json_values)
def test_every_value_is_shown_in_bounds_on_one_line(value: JsonValue) -> None:
    shown = show(value)
    assert shown.isprintable()
    assert len(shown) < 20 * MAX_VALUE


@settings(deadline=None)
@given(st.lists(st.integers(0, 99) | st.booleans() | st.none(), max_size=8))
def test_a_short_value_is_shown_as_json(value: list[JsonValue]) -> None:
    assert json.loads(show(value)) == value


def test_a_deep_value_ends() -> None:
    value: JsonValue = 1
    for _ in range(5000):
        value = [value]
    assert show(value) == "[[[[[[[[[...]]]]]]]]]"
