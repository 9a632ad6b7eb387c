"""Strict JSON: no input may raise, hang, or be read as something that it does not say."""

import os
import stat
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.config.json_faults import FaultKind
from server.config.strict_json import LIMIT_BYTES, parse_bytes, read_object
from server.findings import CheckStatus, ExitCode, Outcome


def make_file(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "config.json"
    path.write_bytes(data)
    return path


def rules_of(outcome: Outcome) -> list[str]:
    return [found.rule for found in outcome.findings]


def message_of(data: bytes) -> str:
    value, faults = parse_bytes(data)
    assert value is None
    (fault,) = faults
    assert fault.kind is FaultKind.INVALID
    return fault.message


def test_object_is_returned_as_it_is(tmp_path: Path) -> None:
    path = make_file(tmp_path, b'{"a": [1, {"b": null}], "c": "\xc3\xa9", "d": 1.5}')
    value, outcome = read_object(path, "draft")
    assert value == {"a": [1, {"b": None}], "c": "\u00e9", "d": 1.5}
    assert not outcome.findings
    assert {check.status for check in outcome.checks} == {CheckStatus.PASS}


def test_missing_file_says_so_and_the_other_rules_wait(tmp_path: Path) -> None:
    value, outcome = read_object(tmp_path / "none.json", "draft")
    assert value is None
    assert rules_of(outcome) == ["SD101"]
    assert outcome.findings[0].exit_code is ExitCode.NOINPUT
    assert outcome.findings[0].locations[0].file == str(tmp_path / "none.json")
    assert [check.status for check in outcome.checks[1:]] == [CheckStatus.SKIP] * 4


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "file/under/file", "loop", "\ud800"])
def test_impossible_names_are_not_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    value, outcome = read_object(tmp_path / name, "target")
    assert value is None
    assert rules_of(outcome) == ["SD101"]


def test_directory_and_devices_are_unreadable(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, what in (
        (tmp_path, "a directory"),
        (tmp_path / "fifo", "a FIFO"),
        (Path("/dev/zero"), "a character device"),
    ):
        value, outcome = read_object(path, "draft")
        assert value is None
        assert rules_of(outcome) == ["SD102"]
        assert what in outcome.findings[0].message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_file_without_permission_is_unreadable(tmp_path: Path) -> None:
    path = make_file(tmp_path, b"{}")
    path.chmod(0)
    assert rules_of(read_object(path, "draft")[1]) == ["SD102"]


def test_large_file_is_refused_by_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_file(tmp_path, b"{}")
    os.truncate(path, 100 * 2**20)
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("the file was read"))
    value, outcome = read_object(path, "draft")
    assert value is None
    assert rules_of(outcome) == ["SD103"]
    assert str(100 * 2**20) in outcome.findings[0].message


def test_limit_itself_is_read(tmp_path: Path) -> None:
    text = b'{"a": "' + b"x" * (LIMIT_BYTES - 9) + b'"}'
    assert len(text) == LIMIT_BYTES
    value, outcome = read_object(make_file(tmp_path, text), "draft")
    assert value is not None
    assert not outcome.findings
    assert rules_of(read_object(make_file(tmp_path, text + b" "), "draft")[1]) == ["SD103"]


def test_growing_file_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A file under /proc says 0 bytes, whatever it holds.
    monkeypatch.setattr(os, "read", lambda _, size: b" " * size)
    outcome = read_object(make_file(tmp_path, b""), "draft")[1]
    assert "more than" in outcome.findings[0].message


def test_failing_read_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_handle: int, _size: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "read", fail)
    outcome = read_object(make_file(tmp_path, b"{}"), "draft")[1]
    assert rules_of(outcome) == ["SD102"]
    assert "Input/output error" in outcome.findings[0].message


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    path = make_file(tmp_path, b"{")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        read_object(path, "draft")
        read_object(tmp_path, "draft")
    assert len(os.listdir("/proc/self/fd")) == before
    assert stat.S_ISREG(path.stat().st_mode)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty (0 bytes)"),
        (b" \n", "is empty (2 bytes)"),
        (b"\xef\xbb\xbf{}", "byte order mark (efbbbf)"),
        (b"\xff\xfe{\0}\0", "byte order mark (fffe)"),
        (b'{"a": "\xff"}', "byte 0xff at offset 7"),
        (b'{"a": 1,\n "b" 2}', "line 2 column 6: Expecting ':' delimiter, found \"2}\""),
        (b'{"a": 1', "line 1 column 8: Expecting ',' delimiter, found the end"),
        (b"{} {}", "line 1 column 4: Extra data"),
        (b"[1, 2]", "top level is [1, 2], an object is needed"),
        (b"null", "top level is null, an object is needed"),
        (b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "nests deeper than 100 levels"),
        (b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", "nests deeper than 100 levels"),
        (b'{"a": ' + b'["]",' * 101 + b"0" + b',"["]' * 101 + b"}", "nests deeper than 100 levels"),
        (rb'{"a": ' + rb'["\"]\"",' * 101 + b"0" + rb',"\"[\""]' * 101 + b"}", "nests deeper than"),
        (b'{"a": ' + b"9" * 5000 + b"}", "has 5000 digits"),
        (b'{"a": [' + b"1," * 1_000_000 + b"1]}", "values, at most"),
    ],
)
def test_faulty_text_says_what_was_found_and_where(data: bytes, words: str) -> None:
    assert words in message_of(data)
    assert len(message_of(data)) < 200


def test_config_holds_fewer_values_than_a_header_may(tmp_path: Path) -> None:
    data = b'{"a": [' + b"1," * 200_000 + b"1]}"
    assert parse_bytes(data)[0] is not None
    value, outcome = read_object(make_file(tmp_path, data), "draft")
    assert value is None
    assert "at most 100000" in outcome.findings[0].message


def test_nearest_good_texts_are_accepted() -> None:
    for data in (
        b"{}",
        b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"a": ' + b"9" * 300 + b"}",
        b'{"a": "\\ud800", "\\udfff": 1e308}',
        b'{"a": "' + b"[" * 200 + b'"}',
        b'{"a": "' + b"]" * 200 + b"[]" * 200 + b'"}',
        b'{"a": "' + b"9" * 5000 + b'", "b": 0.' + b"3" * 400 + b"}",
    ):
        value, faults = parse_bytes(data)
        assert value is not None
        assert not faults


def test_duplicate_keys_are_named_at_every_depth() -> None:
    value, faults = parse_bytes(
        b'{"a": [0, {"x/y": 1, "b": 2, "x/y": 3, "x/y": 3}], "a": 5, "c": 1}'
    )
    assert value == {"a": 5, "c": 1}
    assert [fault.pointer for fault in faults] == ["/a"]
    _, faults = parse_bytes(b'{"a": [0, {"x/y": 1, "b": 2, "x/y": 3, "x/y": 3}]}')
    assert [(fault.kind, fault.pointer) for fault in faults] == [(FaultKind.DUPLICATE, "/a/1/x~1y")]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_non_finite_numbers_are_named(text: str) -> None:
    value, outcome = read_object_of('{"a": [1.0, ' + text + "]}")
    assert value is not None
    assert rules_of(outcome) == ["SD106"]
    location = outcome.findings[0].locations[0]
    assert location.pointer == "/a/1"
    assert location.value in ("nan", "inf", "-inf")


def read_object_of(text: str) -> tuple[object, Outcome]:
    with NamedTemporaryFile() as file:
        Path(file.name).write_text(text, encoding="utf-8")
        return read_object(Path(file.name), "draft")


def test_many_faults_are_counted_not_listed() -> None:
    _, faults = parse_bytes(b'{"a": [' + b"NaN," * 5000 + b"1]}")
    assert len(faults) == 21
    assert faults[-1].message == "has 4980 more of these"


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    value, faults = parse_bytes(data)
    assert value is not None or faults


@given(st.text(alphabet='{}[]",:0159.eE-+ntfNaI\\u', max_size=80))
def test_no_near_json_raises(text: str) -> None:
    value, faults = parse_bytes(text.encode())
    assert value is not None or faults
