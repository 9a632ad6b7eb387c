"""Strict field reading: every fault is a finding with the pointer and the value."""

from typing import Any

import pytest

from server.config.checks import Reading
from server.config.fields import Picked, given, pick, pick_one, pick_rope_theta, read_record
from server.config.records import LayerIds, Positive, Record
from server.config.values import Source
from server.findings import CheckStatus, Finding

SOURCE = Source("draft", "config.json")


class Sample(Record):
    """A record with a field of each kind."""

    size: int
    eps: Positive
    ids: LayerIds
    flag: bool = False
    name: str | None = None


def make_reading(raw: dict[str, Any]) -> Reading[Sample]:
    picked = {name: pick(raw, name) for name in Sample.model_fields}
    return read_record(Sample, picked, Source("draft", "config.json"))


GOOD: dict[str, Any] = {"size": 16, "eps": 1e-6, "ids": [1, 9]}


def only(reading: Reading[Sample]) -> Finding:
    (found,) = reading.outcome.findings
    return found


def test_valid_fields_make_a_frozen_record() -> None:
    reading = make_reading(GOOD)
    assert reading.record is reading.partial
    assert reading.record == Sample(size=16, eps=1e-6, ids=(1, 9))
    assert not reading.unresolved
    assert reading.pointers["ids"] == "/ids"
    assert {check.status for check in reading.outcome.checks} == {CheckStatus.PASS}


@pytest.mark.parametrize(
    ("field", "value", "rule", "words"),
    [
        ("size", True, "SD107", "size is true, an integer is needed, found boolean"),
        ("size", 16.0, "SD107", "size is 16.0, an integer is needed, found number"),
        ("size", "16", "SD107", 'size is "16", an integer is needed, found string'),
        ("size", None, "SD107", "size is null, an integer is needed, found null"),
        ("size", [16], "SD107", "found list"),
        ("size", {"a": 1}, "SD107", "found object"),
        ("eps", "1e-6", "SD107", "a number is needed, found string"),
        ("eps", 0, "SD108", "eps is 0, more than 0 is needed"),
        ("ids", 5, "SD107", "a list is needed, found integer"),
        ("ids", [], "SD108", "at least one item is needed"),
        ("ids", list(range(5000)), "SD108", "has 5000 items"),
        ("flag", 1, "SD107", "true or false is needed, found integer"),
        ("name", 1, "SD107", "a string is needed, found integer"),
    ],
)
def test_wrong_values_are_refused(field: str, value: object, rule: str, words: str) -> None:
    reading = make_reading({**GOOD, field: value})
    found = only(reading)
    assert found.rule == rule
    assert words in found.message
    assert found.locations[0].pointer == f"/{field}"
    assert reading.record is None
    assert reading.unresolved == {field: rule}


def test_nearest_values_are_accepted() -> None:
    for changes in ({"eps": 1}, {"flag": True}, {"name": None}, {"name": "x"}, {"size": -1}):
        assert make_reading({**GOOD, **changes}).record is not None


def test_missing_is_told_with_the_place_where_it_was_looked_for() -> None:
    found = only(make_reading({"eps": 1e-6, "ids": [1]}))
    assert found.rule == "SD105"
    assert found.message == "draft size is missing"
    assert found.locations[0].pointer == "/size"
    assert found.locations[0].has_value is False


def test_all_faults_are_told_and_valid_fields_stay_usable() -> None:
    reading = make_reading({"size": "16", "eps": -1.0, "ids": [1, 2], "flag": True})
    assert [found.rule for found in reading.outcome.findings] == ["SD107", "SD108"]
    assert reading.unresolved == {"size": "SD107", "eps": "SD108"}
    assert reading.partial.ids == (1, 2)
    assert reading.partial.flag is True
    assert reading.partial.name is None


def test_each_wrong_list_item_has_its_own_pointer() -> None:
    reading = make_reading({**GOOD, "ids": [1, "9", True]})
    pointers = [found.locations[0].pointer for found in reading.outcome.findings]
    assert pointers == ["/ids/1", "/ids/2"]


def test_a_list_of_wrong_items_is_not_told_item_by_item() -> None:
    found = make_reading({**GOOD, "ids": ["x"] * 4000}).outcome.findings
    assert len(found) == 8
    assert found[-1].message.endswith("and 3992 more")


def test_large_value_is_shortened() -> None:
    found = only(make_reading({**GOOD, "size": "x" * 2**20}))
    assert len(found.message) < 300
    assert len(str(found.locations[0].value)) < 200


def test_non_finite_number_is_left_to_the_json_reader() -> None:
    reading = make_reading({**GOOD, "eps": float("nan")})
    assert not reading.outcome.findings
    assert reading.unresolved == {"eps": "SD106"}
    assert reading.record is None


def test_pick_walks_objects_only() -> None:
    assert pick({"a": {"b": 1}}, "a", "b") == Picked(1, "/a/b")
    assert pick({"a": [1]}, "a", "b").present is False
    assert pick({"a": None}, "a") == Picked(None, "/a")
    assert given("x") == Picked("x", "")


def test_two_places_must_agree() -> None:
    same = pick_one("size", SOURCE, Picked(16, "/a"), Picked(16, "/b/a"))
    assert (same.value, same.findings) == (16, ())
    clash = pick_one("size", SOURCE, Picked(16, "/a"), Picked(8, "/b/a"))
    (found,) = clash.findings
    assert found.rule == "SD110"
    assert found.message == "draft size is 16 at /a and 8 at /b/a"
    assert [(place.pointer, place.value) for place in found.locations] == [("/a", 16), ("/b/a", 8)]
    alone = pick_one("size", SOURCE, Picked(None, "/a", present=False), Picked(8, "/b/a"))
    assert (alone.value, alone.pointer) == (8, "/b/a")


def test_disagreement_leaves_the_field_unresolved() -> None:
    picked = {name: pick(GOOD, name) for name in Sample.model_fields}
    picked["size"] = pick_one("size", SOURCE, Picked(16, "/size"), Picked(True, "/b"))
    reading = read_record(Sample, picked, Source("draft", "config.json"))
    assert [found.rule for found in reading.outcome.findings] == ["SD110"]
    assert reading.unresolved == {"size": "SD110"}


@pytest.mark.parametrize(
    ("raw", "value", "pointer"),
    [
        ({"rope_theta": 1e6}, 1e6, "/rope_theta"),
        ({"rope_parameters": {"rope_theta": 5}}, 5, "/rope_parameters/rope_theta"),
        (
            {"rope_theta": None, "rope_parameters": {"rope_theta": 5}},
            5,
            "/rope_parameters/rope_theta",
        ),
        ({"rope_theta": 5, "rope_parameters": {"rope_theta": 5.0}}, 5, "/rope_theta"),
        ({"rope_theta": None}, None, "/rope_theta"),
    ],
)
def test_rope_theta_has_two_places(raw: dict[str, Any], value: object, pointer: str) -> None:
    picked = pick_rope_theta(raw, SOURCE)
    assert (picked.value, picked.pointer, picked.findings) == (value, pointer, ())


def test_rope_theta_must_agree_and_is_never_derived() -> None:
    clash = pick_rope_theta({"rope_theta": 1e6, "rope_parameters": {"rope_theta": 1e4}}, SOURCE)
    assert [found.rule for found in clash.findings] == ["SD110"]
    per_layer = {"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}
    assert pick_rope_theta(per_layer, SOURCE).value == 1e6
    per_layer["rope_parameters"]["sliding_attention"] = {"rope_theta": 1e4}
    assert pick_rope_theta(per_layer, SOURCE).waits_on == "SD308"
    per_layer["rope_parameters"]["sliding_attention"] = {"rope_theta": None}
    assert pick_rope_theta(per_layer, SOURCE).waits_on == ""
    assert pick_rope_theta({"rope_parameters": {"a": {}}}, SOURCE).present is False
