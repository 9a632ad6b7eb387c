"""Files that no program writes by accident: each is refused in words, in little memory.

Every case is a process of its own, whose highest memory is read at its end.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.config.drafts import NESTED
from tests.fuzz.seeds import TARGET
from tests.process import environment

LIMIT_KIB = 200 * 1024
FOREIGN = {"torch", "numpy", "pynvml"}
MIB = 2**20

# Runs the server, and writes down its highest memory and its modules.
_METER = """
import json, runpy, sys
record = sys.argv[1]
sys.argv = ["server", *sys.argv[2:]]
try:
    runpy.run_module("server", run_name="__main__", alter_sys=True)
finally:
    with open("/proc/self/status") as status, open(record, "w") as out:
        peak = next(line for line in status if line.startswith("VmHWM"))
        json.dump({"peak_kib": int(peak.split()[1]), "modules": sorted(sys.modules)}, out)
"""


class Metered(NamedTuple):
    code: int
    report: dict[str, Any]
    stderr: str
    peak_kib: int
    modules: set[str]

    @property
    def rules(self) -> list[str]:
        errors = [d for d in self.report["diagnostics"] if d["severity"] == "error"]
        return [diagnostic["rule"] for diagnostic in errors]


def metered(folder: Path) -> Metered:
    """`--check` of the draft and the target in `folder`."""
    record = folder / "record.json"
    asked = ["--check", "--output-format", "json"]
    asked += ["--draft", str(folder / "draft"), "--target", str(folder / "target")]
    done = subprocess.run(
        [sys.executable, "-c", _METER, str(record), *asked],
        env=environment(folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    seen = json.loads(record.read_text())
    report = json.loads(done.stdout, parse_constant=pytest.fail)
    return Metered(done.returncode, report, done.stderr, seen["peak_kib"], set(seen["modules"]))


def make_pair(folder: Path) -> None:
    for name, raw in (("draft", NESTED), ("target", TARGET)):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(dict(raw)))


def text(data: bytes | str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())

    return make


def linked(to: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


def sparse(size_bytes: int, head: bytes = b"") -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(head)
        os.truncate(path, size_bytes)

    return make


def unreadable(path: Path) -> None:
    path.write_text("{}")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user reads every file")


def _with(key: str, value: str) -> str:
    """The nested draft's text, with one more key of any text at all."""
    return f"{{{json.dumps(key)}: {value}, {json.dumps(dict(NESTED))[1:]}"


def _wide(head: str, size_mib: int, tail: str) -> bytes:
    return f"{head}\U0001f600{'x' * size_mib * MIB}{tail}".encode()


ODD: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "a FIFO": (os.mkfifo, "SD102"),
    "an endless device": (linked("/dev/zero"), "SD102"),
    "an empty device": (linked("/dev/null"), "SD102"),
    "a directory": (Path.mkdir, "SD102"),
    "a file of another user": (unreadable, "SD102"),
    "a file that cannot be read on": (linked("/proc/self/mem"), "SD102"),
    "a link to itself": (linked("config.json"), "SD102"),
    "an empty file": (text(b""), "SD103"),
    "100 MB of zeros": (sparse(100 * MIB), "SD103"),
    "100 MB of JSON": (sparse(100 * MIB, b'{"a": "'), "SD103"),
    "15 MB of one text": (text('{"a": "' + "x" * 15 * MIB + '"}'), "any"),
    "15 MB of one wide text": (text(_wide('{"a": "', 15, '"}')), "any"),
    "15 MB of lists": (text('{"a": [' + "[]," * 5 * MIB + "[]]}"), "SD103"),
    "15 MB of spaces": (text(" " * 15 * MIB), "SD103"),
    "10,000 lists in each other": (text(_with("a", "[" * 10_000 + "]" * 10_000)), "SD103"),
    "10,000 objects in each other": (
        text(_with("a", '{"a":' * 10_000 + "1" + "}" * 10_000)),
        "SD103",
    ),
    "10,000 open lists": (text("[" * 10_000), "SD103"),
    "an integer of a million digits": (text(_with("a", "9" * 1_000_000)), "SD103"),
    "a fraction of a million digits": (text(_with("a", "0." + "9" * 1_000_000)), "any"),
    "an exponent of a million digits": (text(_with("a", "1e" + "9" * 1_000_000)), "SD106"),
    "infinity": (text(_with("a", "Infinity")), "SD106"),
    "a byte order mark": (text(b"\xef\xbb\xbf{}"), "SD103"),
    "UTF-16": (text('{"a": 1}'.encode("utf-16")), "SD103"),
    "raw surrogates": (text(b'{"a": "\xed\xa0\x80"}'), "SD103"),
    "a null byte": (text(b'{"a": "\x00"}'), "SD103"),
    "no object": (text("[]"), "SD103"),
}
# The target's config is read by the same code; these are enough to show that.
ODD_TARGETS = (
    *("a FIFO", "an endless device", "a directory", "100 MB of JSON", "raw surrogates"),
    *("10,000 lists in each other", "an integer of a million digits"),
)
SURROGATES = '{"architectures": ["\\ud800"], "\\udfff": "\\ud800\\ud800", "model_type": "\\udc00"}'


def check(done: Metered) -> None:
    """A refusal in words, in bounded memory, without anything heavy."""
    assert done.report["verdict"] == "refuse"
    assert done.code in (65, 66, 78)
    assert "Traceback" not in done.stderr
    assert all(d["message"] and len(d["message"]) < 1500 for d in done.report["diagnostics"])
    assert done.peak_kib < LIMIT_KIB
    assert not FOREIGN & done.modules


@pytest.mark.parametrize(
    ("role", "name"),
    [*(("draft", name) for name in ODD), *(("target", name) for name in ODD_TARGETS)],
)
def test_an_odd_config_is_refused(tmp_path: Path, role: str, name: str) -> None:
    make_pair(tmp_path)
    make, rule = ODD[name]
    config = tmp_path / role / "config.json"
    config.unlink()
    make(config)
    done = metered(tmp_path)
    check(done)
    if rule != "any":
        assert rule in done.rules


@pytest.mark.parametrize(("role", "rule"), [("draft", "SD302"), ("target", "SD310")])
def test_lone_surrogates_are_told_as_escapes(tmp_path: Path, role: str, rule: str) -> None:
    make_pair(tmp_path)
    (tmp_path / role / "config.json").write_text(SURROGATES)
    done = metered(tmp_path)
    check(done)
    assert rule in done.rules
    assert "\\ud800" in json.dumps(done.report["diagnostics"])


def _header(data: bytes, rest_bytes: int = 0) -> Callable[[Path], None]:
    head = len(data).to_bytes(8, "little") + data
    return sparse(len(head) + rest_bytes, head)


def _tensors(number: int) -> Callable[[Path], None]:
    names = (f"model.layers.{i}.weight" for i in range(number))
    one = '"{}": {{"dtype": "I8", "shape": [1], "data_offsets": [{}, {}]}}'
    listed = ", ".join(one.format(name, i, i + 1) for i, name in enumerate(names))
    return _header(f"{{{listed}}}".encode(), number)


def _index(number: int) -> str:
    names = (f"model.layers.{i}.weight" for i in range(number))
    return json.dumps({"weight_map": dict.fromkeys(names, "a.safetensors")})


_BIG = b'{"a": {"dtype": "I8", "shape": [%s], "data_offsets": [0, 1]}}'
WEIGHTS: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "a FIFO": (os.mkfifo, "SD414"),
    "an endless device": (linked("/dev/zero"), "SD414"),
    "a directory": (Path.mkdir, "SD414"),
    "a file of another user": (unreadable, "SD414"),
    "100 MB of zeros": (sparse(100 * MIB), "SD407"),
    "a length of 2^63": (sparse(100 * MIB, (2**63).to_bytes(8, "little")), "SD407"),
    "a header of 90 MB of spaces": (_header(b"{" + b" " * 90 * MIB, 8), "SD407"),
    "10,000 lists in each other": (_header(b'{"a": ' + b"[" * 10_000), "SD407"),
    "a size of a million digits": (_header(_BIG % (b"9" * 1_000_000)), "SD407"),
    "sizes whose product is long": (
        _header(_BIG % b", ".join([b"9223372036854775807"] * 60)),
        "SD407",
    ),
    "raw surrogates": (_header(b'{"\xed\xa0\x80": 1}'), "SD407"),
    # One character beyond the basic plane makes four bytes of every character in the text.
    "a header of 30 MB of wide text": (_header(_wide('{"a": "', 30, '"}')), "SD407"),
    "a header of 90 MB of wide text": (_header(_wide('{"a": "', 90, '"}')), "SD407"),
    "a header of 100,000 tensors": (_tensors(100_000), "SD403"),
}
INDEXES: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "a FIFO": (os.mkfifo, "SD414"),
    "an endless device": (linked("/dev/zero"), "SD414"),
    "100 MB of zeros": (sparse(100 * MIB), "SD409"),
    "60 MB of wide text": (text(_wide('{"weight_map": {"a": "', 60, '"}}')), "SD409"),
    "10,000 lists in each other": (text('{"weight_map": ' + "[" * 10_000), "SD409"),
    "300,000 tensors": (text(_index(300_000)), "SD406"),
    "a file outside": (text('{"weight_map": {"a": "../model.safetensors"}}'), "SD413"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_an_odd_weight_file_is_refused(tmp_path: Path, name: str) -> None:
    make_pair(tmp_path)
    make, rule = WEIGHTS[name]
    make(tmp_path / "draft" / "model.safetensors")
    done = metered(tmp_path)
    check(done)
    assert rule in done.rules


@pytest.mark.parametrize("name", INDEXES)
def test_an_odd_index_is_refused(tmp_path: Path, name: str) -> None:
    make_pair(tmp_path)
    make, rule = INDEXES[name]
    make(tmp_path / "draft" / "model.safetensors.index.json")
    done = metered(tmp_path)
    check(done)
    assert rule in done.rules
