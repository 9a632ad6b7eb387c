"""The command line: good values, aliases, sources, settings, answers."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from server import __version__
from server.cli import Action, Parsed, Telling, answer, help_text, parse
from server.config.rules import RULES
from server.findings import ExitCode, exit_code_of
from server.flags import FLAGS
from server.options import Options, fraction_text

ROOT = Path(__file__).resolve().parent.parent
GIB = 1_073_741_824

# Flag, texts that it takes, and what each one means.
GOOD = [
    ("--target", "sample:qwen3", "sample:qwen3"),
    ("--draft", "/models/a draft", "/models/a draft"),
    ("--model-dir", "/models", Path("/models")),
    ("--revision", "refs/pr/1", "refs/pr/1"),
    ("--spec-method", "auto", "auto"),
    ("--spec-method", "dspine", "dspine"),
    ("--spec-method", "DFLASH", "dflash"),
    ("--spec-method", "draft_model", "draft-model"),
    ("--num-speculative-tokens", "15", 15),
    ("--tensor-parallel-size", "2", 2),
    ("--weights", "private", "private"),
    ("--weights", "mapped", "mapped"),
    ("--dtype", "bfloat16", "bfloat16"),
    ("--dtype", "bf16", "bfloat16"),
    ("--dtype", "fp16", "float16"),
    ("--dtype", "half", "float16"),
    ("--dtype", "fp32", "float32"),
    ("--dtype", "float", "float32"),
    ("--device", "cuda", "cuda"),
    ("--device", "cuda:11", "cuda:11"),
    ("--gpu-memory-utilization", "0.92", Fraction(23, 25)),
    ("--kv-cache-memory-bytes", "10GiB", 10 * GIB),
    ("--kv-cache-dtype", "auto", "auto"),
    ("--kv-cache-dtype", "float32", "float32"),
    ("--kv-cache-dtype", "bf16", "bfloat16"),
    ("--kv-cache-dtype", "fp16", "float16"),
    ("--kv-cache-dtype", "fp8", "fp8_e4m3"),
    ("--kv-cache-dtype", "fp8_e5m2", "fp8_e5m2"),
    ("--draft-kv-cache-dtype", "bfloat16", "bfloat16"),
    ("--draft-kv-cache-dtype", "fp8", "fp8_e4m3"),
    ("--memory-margin-bytes", "0", 0),
    ("--max-model-len", "32752", 32752),
    ("--max-num-seqs", "64", 64),
    ("--max-num-batched-tokens", "8192", 8192),
    ("--kv-block-size", "32", 32),
    ("--output-format", "json", "json"),
    ("--assume-gpu", "l4-24g", ("l4-24g",)),
    ("--assume-memory", "80GiB", (80 * GIB,)),
    ("--report-html", "out/report.html", Path("out/report.html")),
    ("--output-format", "jsonl", "jsonl"),
    ("--output-format", "github", "github"),
    ("--output-format", "junit", "junit"),
    ("--report-file", "out/report.json", Path("out/report.json")),
    ("--junit-file", "out/junit.xml", Path("out/junit.xml")),
    ("--termination-log", "/dev/termination-log", Path("/dev/termination-log")),
    ("--port", "0", 0),
    ("--port", "65535", 65535),
    ("--color", "never", "never"),
]
SWITCHES = ("--check", "--plan", "--exit-after-boot", "--strict", "--verbose", "--concise")


def accepted(*argv: str, **environ: str) -> Options:
    parsed = parse(argv, environ)
    assert parsed.options is not None, parsed.outcome.findings
    return parsed.options


def with_target(*argv: str, **environ: str) -> Options:
    return accepted("--target", "T", "--draft", "D", *argv, **environ)


def test_defaults() -> None:
    assert accepted("--target", "T") == Options("T", sources={"target": "flag --target"})


def test_every_flag_with_a_value_is_in_the_table_above() -> None:
    told = {name for name, _, _ in GOOD} | set(SWITCHES) | {"--predict"}
    assert told == {flag.name for flag in FLAGS if flag.env}


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_a_flag_takes_its_values(name: str, text: str, value: object) -> None:
    base = [part for flag in ("--target", "--draft") if flag != name for part in (flag, "X")]
    base += ["--plan"] if name.startswith("--assume") else []
    field = name.removeprefix("--").replace("-", "_")
    for argv in ([*base, name, text], [*base, f"{name}={text}"]):
        options = accepted(*argv)
        assert getattr(options, field) == value
        assert options.source(field) == f"flag {name}"
    variable = f"SERVER_{field.upper()}"
    options = accepted(*base, **{variable: text})
    assert getattr(options, field) == value
    assert options.source(field) == f"env {variable}"


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_goes_on_and_off(name: str) -> None:
    field = name.removeprefix("--").replace("-", "_")
    variable = f"SERVER_{field.upper()}"
    negation = f"--no-{name.removeprefix('--')}"
    assert getattr(with_target(), field) is False
    assert getattr(with_target(name), field) is True
    assert getattr(with_target(**{variable: "true"}), field) is True
    assert getattr(with_target(**{variable: "off"}), field) is False
    options = with_target(negation, **{variable: "1"})
    assert getattr(options, field) is False
    assert options.source(field) == f"flag {negation}"


def test_an_alias_sets_the_same_option_and_is_named_as_the_source() -> None:
    options = accepted(
        "--model", "T", "--spec-model", "D", "--spec-tokens", "5", "--context-length=100",
        "--page-size", "8", "--max-running-requests", "2", "--chunked-prefill-size", "64",
    )  # fmt: skip
    assert (options.target, options.draft, options.num_speculative_tokens) == ("T", "D", 5)
    assert (options.max_model_len, options.kv_block_size) == (100, 8)
    assert (options.max_num_seqs, options.max_num_batched_tokens) == (2, 64)
    assert options.source("draft") == "flag --spec-model"
    assert options.source("dtype") == "default"


def test_a_length_may_be_left_to_what_fits() -> None:
    options = with_target("--max-model-len", "auto")
    assert (options.max_model_len, options.auto_max_model_len) == (None, True)
    assert options.source("max_model_len") == "flag --max-model-len"
    assert with_target("--max-model-len", "9").auto_max_model_len is False


def test_a_flag_wins_over_its_variable_and_hides_a_bad_one() -> None:
    options = with_target("--dtype", "float32", SERVER_DTYPE="fp8", SERVER_DEVICE="cpu")
    assert (options.dtype, options.device) == ("float32", "cpu")
    assert options.source("dtype") == "flag --dtype"


def test_the_same_value_twice_is_no_conflict() -> None:
    options = with_target("--kv-cache-memory-bytes", "1GiB", "--kv-cache-memory-bytes", "1024MiB")
    assert options.kv_cache_memory_bytes == GIB


def test_a_flag_that_repeats_keeps_every_value_in_order() -> None:
    given = ("--assume-gpu", "l4-24g", "--assume-memory", "2GiB", "--assume-gpu", "a100-40g")
    options = with_target("--plan", *given, "--assume-memory", "1GiB", SERVER_ASSUME_GPU="a10-24g")
    assert options.assume_gpu == ("l4-24g", "a100-40g")
    assert options.assume_memory == (2 * GIB, GIB)
    assert options.source("assume_gpu") == "flag --assume-gpu"
    settings = parse(["--target", "T", "--plan", *given], {}).settings
    assert settings["assume_gpu"].value == ["l4-24g", "a100-40g"]


def test_a_prediction_may_be_demanded_forbidden_or_left_open() -> None:
    asked = [with_target("--plan", *flag).predict for flag in ((), ("--predict",))]
    assert asked == [None, True]
    assert with_target("--plan", "--no-predict").predict is False
    assert with_target("--plan", SERVER_PREDICT="off").predict is False


def test_check_goes_with_exit_after_boot() -> None:
    options = with_target("--check", "--exit-after-boot")
    assert options.check
    assert options.exit_after_boot


def test_how_to_tell_is_known_when_the_rest_is_refused() -> None:
    parsed = parse(["--bogus", "--verbose", "--color=never", "--report-file", "r"],
                   {"SERVER_OUTPUT_FORMAT": "json", "SERVER_TERMINATION_LOG": "t"})  # fmt: skip
    assert parsed.options is None
    assert parsed.telling == Telling(
        "json", Path("r"), color="never", verbose=True, termination_log=Path("t")
    )


def test_settings_hold_every_option_with_its_source() -> None:
    settings = parse(
        ["--target", "T", "--gpu-memory-utilization", "0.290"], {"SERVER_CHECK": "1"}
    ).settings
    assert set(settings) == {flag.field for flag in FLAGS if flag.env}
    utilization = settings["gpu_memory_utilization"]
    assert (utilization.value, utilization.source) == ("0.29", "flag --gpu-memory-utilization")
    assert (settings["check"].value, settings["check"].source) == (True, "env SERVER_CHECK")
    assert (settings["max_model_len"].value, settings["dtype"].source) == (None, "default")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(9, 10), "0.9"),
        (Fraction(1), "1"),
        (Fraction(1, 8), "0.125"),
        (Fraction(1, 10**9), "0.000000001"),
        (Fraction(7, 10**20), "0.00000000000000000007"),
        (Fraction(1, 3), "1/3"),
    ],
)
def test_a_fraction_is_shown_exactly(value: Fraction, text: str) -> None:
    assert fraction_text(value) == text


def test_passing_rules_are_checks_of_the_report() -> None:
    checks = parse(["--target", "T"], {}).outcome.checks
    assert {check.rule for check in checks} == {
        "SD604", "SD701", "SD703", "SD704", "SD705", "SD706", "SD708", "SD709",
    }  # fmt: skip
    assert {check.status for check in checks} == {"pass"}


def asked(*argv: str) -> Parsed:
    return parse(argv, {"SERVER_DTYPE": "nonsense", "SERVER_BOGUS": "1"})


def test_help_and_version_win_over_every_fault() -> None:
    assert asked("--bogus", "-h").action is Action.HELP
    assert asked("--help", "--dtype", "fp8").outcome.findings == ()
    version = asked("--version", "pos")
    assert (version.action, answer(version)) == (Action.VERSION, f"draftgate {__version__}")


def test_help_tells_every_flag_its_names_default_and_variable() -> None:
    text = " ".join(help_text().split())
    for flag in FLAGS:
        assert flag.name in text
        assert all(alias in text.replace("- ", "-") for alias in flag.aliases if alias != "-h")
        assert not flag.env or flag.variable in text
    assert "default: 0.9;" in text
    assert "TOTAL memory" in text
    assert help_text().isascii()


@pytest.mark.parametrize("text", ["SD704", "sd704", "flag-value", "Flag-Value"])
def test_explain_finds_a_rule_by_id_or_name(text: str) -> None:
    parsed = asked("--explain", text)
    assert (parsed.action, parsed.topic) == (Action.EXPLAIN, "SD704")
    assert answer(parsed).startswith("error[SD704] flag-value (exit 2)\n")


def test_explain_of_no_rule_is_a_usage_error_with_a_suggestion() -> None:
    parsed = asked("--explain", "flag-valeu")
    (fault,) = parsed.outcome.findings
    assert (fault.rule, fault.fix) == ("SD704", "did you mean flag-value?")
    assert exit_code_of([fault]) is ExitCode.USAGE
    (fault,) = asked("--explain").outcome.findings
    assert fault.message == "--explain has no value"


def test_list_rules_lists_every_rule_once() -> None:
    parsed = asked("--list-rules")
    lines = answer(parsed).splitlines()
    assert [line.split()[0] for line in lines] == sorted(RULES)


def test_an_answer_does_not_hide_an_unknown_flag() -> None:
    parsed = asked("--list-rules", "--bogus")
    assert [fault.rule for fault in parsed.outcome.findings] == ["SD703"]


def test_the_command_line_loads_nothing_heavy() -> None:
    code = (
        "import sys, server.cli as cli\n"
        "cli.help_text(); cli.parse(['--target', 'T', '--bogus'], {})\n"
        "heavy = {'pydantic', 'torch', 'numpy', 'pynvml', 'tempfile', 'logging', 'subprocess'}\n"
        "sys.exit(repr(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_print_config_tells_every_setting_with_its_source() -> None:
    argv = ["--print-config", "--draft", "D", "--max-model-len", "auto"]
    parsed = parse(argv, {"SERVER_DTYPE": "bf16"})
    assert (parsed.action, parsed.options) == (Action.PRINT_CONFIG, None)
    assert not parsed.outcome.refused  # a boot would need --target
    rows = [line.split(maxsplit=1) for line in answer(parsed).splitlines()]
    assert {name for name, _ in rows} == {flag.field for flag in FLAGS if flag.env}
    told = dict(rows)
    assert told["target"] == "not set  (default)"
    assert told["draft"] == "D  (flag --draft)"
    assert told["dtype"] == "bfloat16  (env SERVER_DTYPE)"
    assert told["max_model_len"] == "auto  (flag --max-model-len)"


def test_print_config_as_json_has_the_settings_of_the_report() -> None:
    parsed = parse(["--print-config", "--output-format", "json", "--target", "T"], {})
    document = json.loads(answer(parsed))
    assert list(document) == ["format_version", "tool", "settings"]
    assert document["settings"]["target"] == {"value": "T", "source": "flag --target"}
    assert document["settings"]["kv_block_size"] == {"value": 16, "source": "default"}


def test_print_config_tells_what_is_wrong_with_the_settings() -> None:
    parsed = parse(["--print-config", "--num-speculative-tokens", "3"], {"SERVER_X": "1"})
    assert [fault.rule for fault in parsed.outcome.findings] == ["SD701", "SD604"]
    assert parsed.outcome.refused


def test_print_schema_prints_it_whatever_the_environment() -> None:
    parsed = asked("--print-schema")
    assert parsed.action is Action.PRINT_SCHEMA
    assert json.loads(answer(parsed))["$schema"].endswith("2020-12/schema")
