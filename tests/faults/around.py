"""Faults of what is around the process: its folders, limits, streams, packages and flags."""

import ctypes
import os
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.faults.fault import Fault, Unavailable
from tests.faults.place import Place
from tests.memory.nvml_stand_in import IMPATIENT
from tests.rules.make_process import NO_THREADS

_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_PR_CAPBSET_DROP = 24
Prepare = Callable[[Place], None]


def limit(number: int, bound: int) -> Prepare:
    """A limit on the process, as ulimit sets it."""

    def prepare(place: Place) -> None:
        place.before.append(lambda: resource.setrlimit(number, (bound, bound)))

    return prepare


def flags(*tokens: str) -> Prepare:
    """More words on the command line."""
    return lambda place: place.argv.extend(tokens)


def variable(name: str, value: str) -> Prepare:
    """One more variable."""
    return lambda place: place.env.update({name: value})


def _unknown_variable(place: Place) -> None:
    place.check()
    variable("SERVER_MAX_SEQS", "1")(place)


def broken(module: str, text: str) -> Prepare:
    """A package that cannot be used."""
    return lambda place: place.module(module, text)


def without_rights(place: Place) -> None:
    """Permissions hold for the superuser too."""
    if os.geteuid() == 0:
        call = ctypes.CDLL(None).prctl
        for right in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            place.before.append(lambda right=right: call(_PR_CAPBSET_DROP, right, 0, 0, 0))


def _unreadable(path: str, *, check: bool = False) -> Prepare:
    def prepare(place: Place) -> None:
        without_rights(place)
        (place.root / path).chmod(0)
        if check:
            place.check()

    return prepare


def _nvml(text: str) -> Prepare:
    """A pynvml of our own, asked because the device is left open."""

    def prepare(place: Place) -> None:
        place.module("pynvml", text)
        place.use("--device", "auto")

    return prepare


def _hanging_nvml(place: Place) -> None:
    place.module("sitecustomize", IMPATIENT)
    _nvml(_HANGING)(place)


_HANGING = "import time\ndef nvmlInit():\n    time.sleep(600)\n"
_LYING = """
from types import SimpleNamespace
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(handle): return "GPU\\x1b[2J\\n"
def nvmlDeviceGetUUID(handle): return "GPU-0"
def nvmlDeviceGetMigMode(handle): return [0, 0]
def nvmlDeviceGetMemoryInfo(handle, version=None): return SimpleNamespace(total=-1, free=2**70)
def nvmlDeviceGetComputeRunningProcesses(handle): return [SimpleNamespace(pid=-1, usedGpuMemory=-1)]
"""


def _samples(place: Place) -> None:
    place.use("--target", "sample:qwen3")
    place.use("--draft", "sample:dflash")


def _read_only_home(place: Place) -> None:
    without_rights(place)
    _samples(place)
    del place.env["SERVER_CACHE_DIR"]
    (place.root / "home").chmod(0o500)


def _no_home(place: Place) -> None:
    for name in ("SERVER_CACHE_DIR", "HOME", "XDG_CACHE_HOME", "HF_HOME"):
        place.env.pop(name, None)


def _cache_is_a_file(place: Place) -> None:
    _samples(place)
    (place.root / "file").write_text("")
    place.env["SERVER_CACHE_DIR"] = str(place.root / "file")


def _report(path: str) -> Prepare:
    return lambda place: place.use("--report-file", str(place.root / path))


def _read_only_report(place: Place) -> None:
    without_rights(place)
    (place.root / "ro").mkdir(mode=0o500)
    place.use("--report-file", str(place.root / "ro" / "report.json"))


def _full_disk(place: Place) -> None:
    place.check()
    place.use("--report-file", str(place.root / "report.json"))
    limit(resource.RLIMIT_FSIZE, 64)(place)


def _closed(*numbers: int) -> Prepare:
    def prepare(place: Place) -> None:
        place.check()
        place.before.append(lambda: [os.close(number) for number in numbers])

    return prepare


def _reader_gone(place: Place) -> None:
    place.check()
    reader, writer = os.pipe()
    os.close(reader)
    place.stdout = place.stderr = os.fdopen(writer, "w")


def _folder_gone(place: Place) -> None:
    folder = place.root / "gone"
    place.before += [folder.mkdir, lambda: os.chdir(folder), folder.rmdir]


def _no_threads(ranks: int) -> Prepare:
    def prepare(place: Place) -> None:
        place.module("sitecustomize", NO_THREADS)
        place.use("--tensor-parallel-size", str(ranks))

    return prepare


def _full_output(place: Place) -> None:
    place.check()
    place.use("--output-format", "json")
    place.stdout = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w")


def _full_output_of_ranks(place: Place) -> None:
    _full_output(place)
    place.argv.remove("--check")
    place.use("--tensor-parallel-size", "2")
    place.use("--output-format", "jsonl")  # of which the launcher writes the first lines


def _ascii(place: Place) -> None:
    place.env |= {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    place.use("--draft", str(place.root / "entwürfe-草稿"))


def _group(size_bytes: int) -> Prepare:
    """A control group of either version, below the one that this process may make one in."""

    def prepare(place: Place) -> None:
        second = Path("/sys/fs/cgroup/cgroup.subtree_control").exists()
        folder = Path("/sys/fs/cgroup", "" if second else "memory", f"faults-{os.getpid()}")
        try:
            folder.mkdir()
            bound = folder / ("memory.max" if second else "memory.limit_in_bytes")
            bound.write_text(str(size_bytes))
        except OSError as error:
            with suppress(OSError):
                folder.rmdir()
            raise Unavailable(f"no control group can be made: {error.strerror}") from None
        place.after.append(folder.rmdir)
        place.before.append(lambda: (folder / "cgroup.procs").write_text(str(os.getpid())))

    return prepare


_GIB = 2**30
AROUND = (
    Fault("a config of another user", _unreadable("draft/config.json"), 66, "error[SD102]"),
    Fault("a shard of another user", _unreadable("draft/model.safetensors"), 66, "[SD414]"),
    Fault("a folder that may not be entered", _unreadable("draft"), 66, "error[SD10"),
    Fault("a read-only home, and samples asked for", _read_only_home, 66, "error[SD605]"),
    Fault("no home", _no_home, 0, "accepted: "),
    Fault("a cache folder that is a file", _cache_is_a_file, 66, "error[SD605]"),
    Fault("a report in a folder that is not there", _report("gone/r.json"), 66, "error[SD707]"),
    Fault("a report that is a folder", _report("draft"), 66, "error[SD707]"),
    Fault("a report in a read-only folder", _read_only_report, 66, "error[SD707]"),
    Fault("a disk that is full when the report is written", _full_disk, 66, "error[SD707]"),
    Fault("standard output is closed", _closed(1), 0, "accepted: "),
    Fault("standard error is closed", _closed(2), 0, ""),
    Fault("both are closed", _closed(1, 2), 0, ""),
    Fault("the reader went away", _reader_gone, 0, ""),
    Fault("standard output is full", _full_output, 66, "error[SD707]"),
    Fault("standard output is full, with ranks", _full_output_of_ranks, 66, "error[SD707]"),
    Fault("a locale without UTF-8", _ascii, 66, "error[SD101]"),
    Fault("an address space of 2 GiB", limit(resource.RLIMIT_AS, 2 * _GIB), 0, "accepted: "),
    Fault("an address space of 300 MiB", limit(resource.RLIMIT_AS, 300 * 2**20), 69, "error[SD"),
    Fault("data of 100 MiB", limit(resource.RLIMIT_DATA, 100 * 2**20), 69, "error[SD"),
    Fault("a control group of 96 MiB", _group(96 * 2**20), 69, "error[SD50"),
    Fault("a control group of 200 MiB", _group(200 * 2**20), 69, "error[SD50"),
    Fault("8 open files", limit(resource.RLIMIT_NOFILE, 8), 69, "error[SD613]"),
    Fault("10 open files", limit(resource.RLIMIT_NOFILE, 10), 69, "error[SD613]"),
    Fault("no thread can be started", _no_threads(1), 69, "error[SD613]"),
    Fault("no thread can be started by the ranks", _no_threads(2), 69, "error[SD613]"),
    Fault("the current folder is gone", _folder_gone, 69, "error[SD607]"),
    Fault("no torch", broken("torch", "raise ImportError('no torch')"), 69, "error[SD607]"),
    Fault("a torch that lacks a library",
          broken("torch", "raise OSError('libtorch.so: cannot open')"), 69, "error[SD607]"),
    Fault("no NVML package", _nvml("raise ImportError('no pynvml')"), 0, "accepted: "),
    Fault("an NVML that hangs", _hanging_nvml, 0, "accepted: "),
    Fault("an NVML that lies of a GPU", _nvml(_LYING), 69, "error[SD601]"),
    Fault("no safetensors package",
          broken("safetensors", "raise ImportError('none')"), 69, "error[SD607]"),
    Fault("CUDA where there is none", lambda place: place.use("--device", "cuda"), 69, "[SD601]"),
    Fault("a pool of 100 TiB", flags("--kv-cache-memory-bytes", "100TiB"), 69, "error[SD50"),
    Fault("a pool of one block", flags("--kv-cache-memory-bytes", "65536"), 69, "error[SD502]"),
    Fault("a length above the models'",
          lambda place: place.use("--max-model-len", "1000000"), 78, "error[SD506]"),
    Fault("a flag that is unknown", flags("--draught", "x"), 2, "error[SD703]"),
    Fault("a flag of another engine", flags("--mem-fraction-static", "0.8"), 2, "error[SD703]"),
    Fault("a flag with a bad value", flags("--gpu-memory-utilization", "1.5"), 2, "[SD704]"),
    Fault("a variable with a bad value",
          variable("SERVER_KV_BLOCK_SIZE", "many"), 2, "error[SD7"),
    Fault("a variable that is unknown", _unknown_variable, 0, "accepted: "),
    Fault("one setting twice", flags("--kv-block-size", "16", "--kv-block-size", "32"), 2,
          "error[SD705]"),
    Fault("a value with escapes", flags("--dtype", "\x1b[2J\nok"), 2, "\\u001b[2J\\nok"),
)  # fmt: skip
