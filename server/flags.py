"""The one table of flags: it feeds the parser, the environment, the help and the settings.

Names that other engines use for the same thing are aliases; names that look alike and mean
something else are in `server/cli_foreign.py`.
"""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import NamedTuple

from server.cards import CARDS
from server.cli_values import (
    Reader,
    choice,
    read_bytes,
    read_count,
    read_device,
    read_family,
    read_length,
    read_path,
    read_port,
    read_positive_bytes,
    read_requests,
    read_switch,
    read_text,
    read_utilization,
)
from server.options import MAPPED, MAX_REQUESTS, Options

ENV_PREFIX = "SERVER_"
# Read elsewhere: where samples are written, and which GPU the tests accept or demand.
OTHER_VARIABLES = ("SERVER_CACHE_DIR", "SERVER_GPU_TESTS", "SERVER_GPU_REQUIRED")

_FORMATS = ("text", "json", "jsonl", "github", "junit")
_DTYPES = ("auto", "bfloat16", "float16", "float32")
_DTYPE_HABITS = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float": "float32",
}
_KV_DTYPES = ("auto", "bfloat16", "float16", "float32", "fp8_e4m3", "fp8_e5m2")
_KV_DTYPE_HABITS = {**_DTYPE_HABITS, "fp8": "fp8_e4m3"}


class Flag(NamedTuple):
    """One flag. An empty `metavar` makes it a switch; `example` is a text that it takes.

    `env` is false for a flag that asks for an answer instead of a boot (--help). A flag that
    `repeats` may be given several times, and keeps every value.
    """

    name: str
    group: str
    help: str
    read: Reader = read_switch
    metavar: str = ""
    example: str = "1"
    aliases: tuple[str, ...] = ()
    env: bool = True
    repeats: bool = False

    @property
    def field(self) -> str:
        """The field of `Options` that it sets."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable that stands in for it."""
        return ENV_PREFIX + self.field.upper()

    @property
    def is_switch(self) -> bool:
        """True for a flag without a value (--check)."""
        return not self.metavar

    @property
    def negation(self) -> str:
        """The spelling that turns a switch off, or nothing."""
        return f"--no-{self.name.removeprefix('--')}" if self.is_switch and self.env else ""

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every text that means this flag."""
        return (self.name, *self.aliases, *filter(None, (self.negation,)))


_WHAT, _MEMORY, _RUN, _TELL = "what to load", "memory and lengths", "how to run", "what to tell"

FLAGS: tuple[Flag, ...] = (
    Flag(
        "--target",
        _WHAT,
        "the model that is served: a checkpoint folder, a config.json, or a model name",
        read_text,
        "NAME|PATH",
        "Qwen3-8B",
        ("--model", "--model-path"),
    ),
    Flag(
        "--draft",
        _WHAT,
        "the drafter: a checkpoint folder, a config.json, or a model name; none without it",
        read_text,
        "NAME|PATH",
        "Qwen3-8B-DFlash-b16",
        ("--draft-model", "--spec-model", "--speculative-draft-model-path"),
    ),
    Flag(
        "--model-dir",
        _WHAT,
        "folder in which model names are looked for first",
        read_path,
        "PATH",
        "/models",
    ),
    Flag(
        "--revision",
        _WHAT,
        "branch, tag or commit of a model in the Hugging Face cache",
        read_text,
        "NAME",
        "main",
    ),
    Flag(
        "--spec-method",
        _WHAT,
        "drafter family; auto reads it from the draft's config, and another name must agree with "
        "it. Served: dflash, dspark",
        read_family,
        "auto|FAMILY",
        "dflash",
    ),
    Flag(
        "--num-speculative-tokens",
        _WHAT,
        "tokens drafted in one step, at most the draft's trained block",
        read_count,
        "TOKENS",
        "7",
        ("--spec-tokens",),
    ),
    Flag(
        "--dtype",
        _WHAT,
        "type of weights and activations; auto takes the target's own",
        choice(_DTYPES, _DTYPE_HABITS),
        "|".join(_DTYPES),
        "bfloat16",
    ),
    Flag(
        "--device",
        _WHAT,
        "auto takes CUDA where there is one, else the CPU",
        read_device,
        "auto|cpu|cuda|cuda:N",
        "cuda:0",
    ),
    Flag(
        "--tensor-parallel-size",
        _WHAT,
        "split each layer over this many ranks, each with a device of its own; on a CPU they share "
        "the host",
        read_count,
        "RANKS",
        "2",
        ("--tensor-parallel", "--tp-size", "--tp", "-tp"),
    ),
    Flag(
        "--weights",
        _WHAT,
        "private copies them into memory; mapped (CPU only, in the stored dtype) uses the files "
        "in place: a file that is cut short then ends the process, one that is overwritten "
        "changes the live weights",
        choice(("private", MAPPED)),
        f"private|{MAPPED}",
        MAPPED,
    ),
    Flag(
        "--gpu-memory-utilization",
        _MEMORY,
        "fraction of the device's TOTAL memory that may be used, above 0 and up to 1",
        read_utilization,
        "FRACTION",
        "0.9",
    ),
    Flag(
        "--kv-cache-memory-bytes",
        _MEMORY,
        "bytes for the KV pool (or 10GiB, 512MiB); without it: what the limit leaves",
        read_positive_bytes,
        "BYTES",
        "10GiB",
    ),
    Flag(
        "--kv-cache-dtype",
        _MEMORY,
        "type that the KV pool stores; auto is that of --dtype. fp8 has the scale 1.0: larger "
        "values are cut to what it holds, 448 in fp8_e4m3",
        choice(_KV_DTYPES, _KV_DTYPE_HABITS),
        "|".join(_KV_DTYPES),
        "fp8_e4m3",
    ),
    Flag(
        "--draft-kv-cache-dtype",
        _MEMORY,
        "the same for the draft's part; auto is that of --dtype, whatever the target's part stores",
        choice(_KV_DTYPES, _KV_DTYPE_HABITS),
        "|".join(_KV_DTYPES),
        "bfloat16",
        ("--speculative-draft-kv-cache-dtype",),
    ),
    Flag(
        "--memory-margin-bytes",
        _MEMORY,
        "bytes that are kept free inside the limit (or 150MiB)",
        read_bytes,
        "BYTES",
        "150MiB",
    ),
    Flag(
        "--max-model-len",
        _MEMORY,
        "tokens of the longest request; auto takes the longest that fits; without it: the models' "
        "own limit",
        read_length,
        "TOKENS|auto",
        "32768",
        ("--context-length",),
    ),
    Flag(
        "--max-num-seqs",
        _MEMORY,
        f"requests that run at once, at most {MAX_REQUESTS}; without it: 64 on CUDA, 4 on a CPU",
        read_requests,
        "REQUESTS",
        "64",
        ("--max-running-requests",),
    ),
    Flag(
        "--max-num-batched-tokens",
        _MEMORY,
        "tokens of one prefill step; without it: 8192 on CUDA, 256 on a CPU",
        read_count,
        "TOKENS",
        "8192",
        ("--chunked-prefill-size",),
    ),
    Flag(
        "--kv-block-size",
        _MEMORY,
        "tokens in one block of the KV pool (the draft's block size is another thing)",
        read_count,
        "TOKENS",
        "16",
        ("--block-size", "--page-size"),
    ),
    Flag("--check", _RUN, "give the verdict and stop: no weights are read, no device is touched"),
    Flag(
        "--plan",
        _RUN,
        "say whether it fits, and what fits, from the files alone: no weights are read; for the "
        "device at hand, or for --assume-gpu and --assume-memory",
    ),
    Flag(
        "--assume-gpu",
        _RUN,
        f"with --plan: a GPU of this kind, which need not be there; may be repeated. One of "
        f"{', '.join(CARDS)}",
        choice(tuple(CARDS)),
        "NAME",
        "a100-80g",
        repeats=True,
    ),
    Flag(
        "--assume-memory",
        _RUN,
        "with --plan: a device of this size, which need not be there; may be repeated",
        read_positive_bytes,
        "BYTES",
        "80GiB",
        repeats=True,
    ),
    Flag(
        "--predict",
        _RUN,
        "with --plan: predict the activation peak, which needs torch; without either: where "
        "torch can be imported",
    ),
    Flag("--exit-after-boot", _RUN, "stop when everything is loaded, instead of holding it"),
    Flag("--strict", _RUN, "refuse what would only be told: keys that nothing reads"),
    Flag("--verbose", _TELL, "print notes too"),
    Flag("--concise", _TELL, "print one line for each finding, and the verdict"),
    Flag(
        "--output-format",
        _TELL,
        "text goes to standard error, the others to standard output: json and junit are one "
        "document at the end, jsonl one event a line as it happens, github annotations",
        choice(_FORMATS),
        "|".join(_FORMATS),
        "json",
    ),
    Flag(
        "--report-file",
        _TELL,
        "write the JSON report to this file as well, whatever the outcome",
        read_path,
        "PATH",
        "report.json",
    ),
    Flag(
        "--report-html",
        _TELL,
        "write the report to this file as one HTML page too, whatever the outcome",
        read_path,
        "PATH",
        "report.html",
    ),
    Flag(
        "--junit-file",
        _TELL,
        "write a JUnit report to this file as well, whatever the outcome",
        read_path,
        "PATH",
        "junit.xml",
    ),
    Flag(
        "--port",
        _TELL,
        "answer /health, /ready, /report and /metrics on this port of 127.0.0.1, from before the "
        "load until the end; 0 takes any that is free",
        read_port,
        "PORT",
        "8000",
    ),
    Flag(
        "--termination-log",
        _TELL,
        "write why a boot ended to this file, for Kubernetes; without it to /dev/termination-log "
        "where that is there",
        read_path,
        "PATH",
        "/dev/termination-log",
    ),
    Flag(
        "--color",
        _TELL,
        "colour; auto obeys NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE and the terminal",
        choice(("auto", "always", "never")),
        "auto|always|never",
        "never",
    ),
    Flag(
        "--explain",
        _TELL,
        "explain one rule and stop",
        read_text,
        "RULE",
        "SD204",
        env=False,
    ),
    Flag("--list-rules", _TELL, "list every rule and stop", env=False),
    Flag(
        "--print-config",
        _TELL,
        "print every setting with its source and stop; as JSON with --output-format json",
        env=False,
    ),
    Flag("--print-schema", _TELL, "print the JSON Schema of the report and stop", env=False),
    Flag("--version", _TELL, "print the version and stop", env=False),
    Flag("--help", _TELL, "print this and stop", aliases=("-h",), env=False),
)

BY_SPELLING: Mapping[str, Flag] = MappingProxyType(
    {spelling: flag for flag in FLAGS for spelling in flag.spellings}
)
BY_VARIABLE: Mapping[str, Flag] = MappingProxyType({f.variable: f for f in FLAGS if f.env})
BY_FIELD: Mapping[str, Flag] = MappingProxyType({f.field: f for f in FLAGS})


# What `Options` has when nothing is given, by field.
DEFAULTS: Mapping[str, object] = MappingProxyType(
    {f.name: f.default for f in fields(Options) if f.name in BY_FIELD and f.name != "target"}
)
