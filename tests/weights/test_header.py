"""Headers: every way in which a file can lie about itself, beside the nearest that does not."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from server.weights.files import WeightFault
from server.weights.header import HEADER_LIMIT_BYTES, examine
from tests.weights.headers import read_header
from tests.weights.make import raw_file

PAIR = {
    "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
    "b": {"dtype": "F32", "shape": [4], "data_offsets": [12, 28]},
}


def fault_of(tmp_path: Path, content: bytes) -> WeightFault:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(WeightFault) as caught:
        read_header(path)
    return caught.value


def changed(name: str, **fields: object) -> dict[str, Any]:
    return {**PAIR, name: {**PAIR[name], **fields}}


def test_reads_what_the_package_writes(tmp_path: Path) -> None:
    tensors = {
        "half": torch.ones(2, 3, dtype=torch.float16),
        "full": torch.ones(5),
        "wide": torch.ones(2, 2, dtype=torch.bfloat16),
        "empty": torch.ones(0, 4),
        "scalar": torch.tensor(3.0),
        "ints": torch.ones(3, dtype=torch.int64),
    }
    path = tmp_path / "model.safetensors"
    save_file(tensors, path, {"format": "pt"})
    header = read_header(path)
    assert {n: (e.dtype, e.shape) for n, e in header.tensors.items()} == {
        "half": ("F16", (2, 3)),
        "full": ("F32", (5,)),
        "wide": ("BF16", (2, 2)),
        "empty": ("F32", (0, 4)),
        "scalar": ("F32", ()),
        "ints": ("I64", (3,)),
    }
    ends = [entry.begin + entry.size_bytes for entry in header.tensors.values()]
    assert max(ends) == header.shard.size_bytes == path.stat().st_size


def test_offsets_lead_to_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"x": torch.tensor([1.0, -2.0])}, path)
    entry = read_header(path).tensors["x"]
    data = path.read_bytes()[entry.begin : entry.begin + entry.size_bytes]
    assert data == bytes.fromhex("0000803f000000c0")


def test_a_good_raw_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "good.safetensors"
    path.write_bytes(raw_file(PAIR, 28))
    assert list(read_header(path).tensors) == ["a", "b"]


def test_file_order_is_by_offset_not_by_name(tmp_path: Path) -> None:
    path = tmp_path / "good.safetensors"
    path.write_bytes(raw_file(dict(reversed(PAIR.items())), 28))
    assert list(read_header(path).tensors) == ["a", "b"]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (changed("a", dtype="BF17"), 'unknown dtype "BF17"'),
        (changed("a", dtype=16), "unknown dtype 16"),
        (changed("a", shape=[2, -3]), "shape [2, -3]"),
        (changed("a", shape=[2, 3.0]), "shape [2, 3.0]"),
        (changed("a", shape=[True, 6]), "shape [true, 6]"),
        (changed("a", shape=[2, 2]), "of shape [2, 2] BF16 is given 12 bytes"),
        (changed("a", shape=[2**62, 2**62]), "is given 12 bytes"),
        (changed("a", shape=[1] * 65), "tensor a has shape"),
        (changed("a", data_offsets=[12, 0]), "data_offsets [12, 0]"),
        (changed("a", data_offsets=[0, 6, 12]), "data_offsets [0, 6, 12]"),
        (changed("a", data_offsets=None), "data_offsets null"),
        (changed("b", data_offsets=[16, 32]), "a hole before b: it begins at 16"),
        (changed("b", data_offsets=[8, 24]), "an overlap before b: it begins at 8"),
        ({**PAIR, "b": 4}, "tensor b is 4"),
        ({**PAIR, "__metadata__": {"step": 4}}, "__metadata__"),
        ({**PAIR, "__metadata__": ["x"]}, "__metadata__"),
    ],
)
def test_entries_that_lie(tmp_path: Path, header: dict[str, Any], said: str) -> None:
    fault = fault_of(tmp_path, raw_file(header, 28))
    assert fault.rule == "SD407"
    assert said in fault.message


def test_every_entry_that_lies_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    header = {**changed("a", dtype="BF17"), "c": 4, "d": PAIR["b"] | {"data_offsets": [28, 44]}}
    path.write_bytes(raw_file(header, 44))
    found, faults = examine(path)
    assert [fault.message.split(" is ")[0].split(" has ")[0] for fault in faults] == [
        "tensor a",
        "tensor c",
    ]
    assert found is not None
    assert (list(found.tensors), found.bad) == (["b", "d"], ("a", "c"))


def test_holes_and_length_are_told_beside_an_entry_that_says_where_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    header = {**changed("a", dtype="BF17"), "c": PAIR["b"] | {"data_offsets": [30, 46]}}
    for data_bytes, rules in ((46, ["SD407", "SD407"]), (45, ["SD407", "SD407", "SD408"])):
        path.write_bytes(raw_file(header, data_bytes))
        _, faults = examine(path)
        assert [fault.rule for fault in faults] == rules
        assert "a hole before c" in faults[1].message


def test_many_entries_that_lie_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    for number, more in ((10, None), (12, "has 2 more such faults")):
        path.write_bytes(raw_file({f"t{i}": i for i in range(number)}, 0))
        _, faults = examine(path)
        assert len(faults) == min(number, 11)
        assert more is None or faults[-1].message == more


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"a": 1', "header: line 1"),
        (b' {"a": 1}', "does not start with {"),
        (b'["a"]', "does not start with {"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}, "a": 1}', "/a is given"),
        (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nests deeper"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
        (b'{"a": NaN}', "/a is nan"),
    ],
)
def test_text_that_is_no_header(tmp_path: Path, text: bytes, said: str) -> None:
    fault = fault_of(tmp_path, raw_file(text, 0))
    assert fault.rule == "SD407"
    assert said in fault.message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3957900840\n", "LFS"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3957900840\n",
            "size 395",
        ),
        (b"<!DOCTYPE html><html></html>", "HTML"),
        (b"\n <html></html>", "HTML"),
        (b"PK\x03\x04" + bytes(80), "zip archive"),
        (b"PK\x03\x04\x14\0\x08\x08{" + bytes(80), "zip archive"),
        (b"\x80\x02}q\x00." + bytes(80), "pickle"),
        (b"GGUF\x03" + bytes(80), "GGUF"),
        (bytes(4096), "zero bytes"),
        (b'{"error": "gated repository"}', "JSON text"),
    ],
)
def test_other_files_are_named_for_what_they_are(tmp_path: Path, content: bytes, said: str) -> None:
    fault = fault_of(tmp_path, content)
    assert fault.rule == "SD407"
    assert said in fault.message


@pytest.mark.parametrize(
    ("cut", "rule", "said"),
    [
        (-1, "SD408", "truncated by 1"),
        (16, "SD408", "longer than its header says by 16"),
        (-100, "SD408", "its header alone needs"),
    ],
)
def test_length_must_be_exact(tmp_path: Path, cut: int, rule: str, said: str) -> None:
    whole = raw_file(PAIR, 28)
    fault = fault_of(tmp_path, whole[:cut] if cut < 0 else whole + bytes(cut))
    assert fault.rule == rule
    assert said in fault.message


def test_empty_and_tiny_files(tmp_path: Path) -> None:
    assert fault_of(tmp_path, b"").message == "is empty (0 bytes)"
    tiny = fault_of(tmp_path, b"\x01\x02\x03")
    assert (tiny.rule, "3 bytes" in tiny.message) == ("SD408", True)


def test_header_limit(tmp_path: Path) -> None:
    over = (HEADER_LIMIT_BYTES + 1).to_bytes(8, "little") + b"{}"
    fault = fault_of(tmp_path, over)
    assert (fault.rule, "16777217" in fault.message) == ("SD407", True)
    at = HEADER_LIMIT_BYTES.to_bytes(8, "little") + b"{}"
    assert fault_of(tmp_path, at).rule == "SD408"


def test_not_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name, said in (("fifo", "FIFO"), ("folder", "directory")):
        with pytest.raises(WeightFault, match=said) as caught:
            read_header(tmp_path / name)
        assert caught.value.rule == "SD414"


def test_missing_and_dangling_differ(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("../blobs/abc")
    with pytest.raises(WeightFault, match=r"dangling link to \.\./blobs/abc") as dangling:
        read_header(tmp_path / "link")
    with pytest.raises(WeightFault, match="not there") as missing:
        read_header(tmp_path / "none")
    assert dangling.value.rule == missing.value.rule == "SD406"
    assert dangling.value.fix is not None
    assert "whole cache" in dangling.value.fix


def test_no_permission_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(WeightFault, match="Permission denied") as caught:
        read_header(tmp_path / "x.safetensors")
    assert caught.value.rule == "SD414"


def test_a_failing_disk_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "good.safetensors"
    path.write_bytes(raw_file(PAIR, 28))

    def fail(descriptor: int, size_bytes: int, offset_bytes: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(WeightFault, match="Input/output error") as caught:
        read_header(path)
    assert caught.value.rule == "SD414"
