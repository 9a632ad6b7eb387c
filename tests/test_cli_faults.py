"""Refused command lines: each fault with the place, both values and a fix; all in one pass."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.cli import Parsed, parse
from server.cli_foreign import FOREIGN
from server.findings import ExitCode, Finding, Severity, exit_code_of
from server.flags import BY_SPELLING, FLAGS, Flag
from server.render.style import Style
from server.render.text import render_finding

BAD = {
    "--target": [""],
    "--draft": ["", "   "],
    "--model-dir": ["", "-", "a\0b"],
    "--revision": [""],
    "--spec-method": ["", "n gram", "dflash "],
    "--num-speculative-tokens": ["", "0", "-1", "1.0", "seven"],
    "--tensor-parallel-size": ["", "0", "2.0", "two"],
    "--weights": ["", "mmap", "Mapped"],
    "--dtype": ["", "fp8", "int8", "BFLOAT16"],
    "--device": ["", "gpu", "cuda:", "cuda:01", "cuda:-1", "mps", "0"],
    "--gpu-memory-utilization": ["", "0", "1.01", "90"],
    "--kv-cache-memory-bytes": ["", "0", "10G", "1.5"],
    "--kv-cache-dtype": ["", "int8", "fp8_e4m3fn", "FP8"],
    "--draft-kv-cache-dtype": ["", "fp4"],
    "--memory-margin-bytes": ["", "-1", "150M"],
    "--max-model-len": ["", "0", "32k", "Auto"],
    "--max-num-seqs": ["", "0", "16385", "999999"],
    "--max-num-batched-tokens": ["", "8k"],
    "--kv-block-size": ["", "0"],
    "--output-format": ["", "yaml"],
    "--assume-gpu": ["", "a100", "L4-24G"],
    "--assume-memory": ["", "0", "80G"],
    "--report-file": ["", "-", "a\0b"],
    "--report-html": ["", "-", "a\0b"],
    "--junit-file": ["", "-", "a\0b"],
    "--termination-log": ["", "-", "a\0b"],
    "--port": ["", "65536", "-1", "http", "80a", "127.0.0.1:80", "9" * 40],
    "--color": ["", "on"],
}


def faults(*argv: str, **environ: str) -> list[Finding]:
    parsed = parse(argv, environ)
    assert (parsed.options is None) == parsed.outcome.refused
    return list(parsed.outcome.findings)


def only_fault(*argv: str, **environ: str) -> Finding:
    (fault,) = faults(*argv, **environ)
    return fault


def with_target(*argv: str, **environ: str) -> Finding:
    return only_fault("--target", "T", "--draft", "D", *argv, **environ)


def test_every_flag_with_a_value_has_bad_ones_above() -> None:
    assert BAD.keys() == {flag.name for flag in FLAGS if flag.env and not flag.is_switch}


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, texts in BAD.items() for t in texts])
def test_a_bad_value_is_refused_from_a_flag_and_from_a_variable(name: str, text: str) -> None:
    base = [part for flag in ("--target", "--draft") if flag != name for part in (flag, "X")]
    fault = only_fault(*base, f"{name}={text}")
    assert (fault.rule, exit_code_of([fault])) == ("SD704", ExitCode.USAGE)
    assert (fault.locations[0].flag, fault.locations[0].value) == (name, text)
    assert name in fault.fix
    variable = BY_SPELLING[name].variable
    fault = only_fault(*base, **{variable: text})
    assert (fault.rule, exit_code_of([fault])) == ("SD706", ExitCode.USAGE)
    assert fault.locations[0].source == f"env {variable}"
    assert fault.message.startswith(variable)
    assert fault.fix.startswith(f"{variable}=")


@pytest.mark.parametrize("flag", [f for f in FLAGS if f.metavar], ids=lambda flag: flag.name)
def test_a_flag_at_the_end_or_before_a_flag_has_no_value(flag: Flag) -> None:
    needed = [] if flag.field == "target" else ["--target", "T"]
    for argv in ([*needed, flag.name], [*needed, flag.name, "--verbose"]):
        fault = faults(*argv)[0]
        assert (fault.rule, fault.message) == ("SD704", f"{flag.name} has no value")


@pytest.mark.parametrize(
    ("flag", "typed", "meant"),
    [
        ("--assume-gpu", "l4", "l4-24g"),
        ("--assume-gpu", "L40S", "l40s-48g"),
        ("--assume-gpu", "a100", "a100-40g"),
        ("--assume-gpu", "A100-80GB", "a100-80g"),
        ("--assume-gpu", "a100_80g", "a100-80g"),
        ("--assume-gpu", "4090", "rtx-4090-24g"),
        ("--assume-gpu", "rtx4090", "rtx-4090-24g"),
        ("--assume-gpu", "h20", "a100-80g"),  # another card, which the table lacks
        ("--assume-gpu", "gaudi", "a100-80g"),
        ("--dtype", "float61", "float16"),
        ("--dtype", "BF16", "bfloat16"),
        ("--kv-cache-dtype", "fp8_e4m3fn", "fp8_e4m3"),
        ("--kv-cache-dtype", "float8_e5m2", "fp8_e5m2"),
        ("--weights", "mmap", "mapped"),
        ("--output-format", "JSON", "json"),
        ("--color", "none", "never"),
    ],
)
def test_of_a_list_of_values_the_one_that_was_probably_meant_is_named(
    flag: str, typed: str, meant: str
) -> None:
    plan = ("--plan",) if flag == "--assume-gpu" else ()
    assert with_target(flag, typed, *plan).fix.startswith(f"{flag} {meant}, for example; ")


def test_messages_hold_what_was_given_and_what_is_taken() -> None:
    fault = with_target("--dtype", "fp8")
    assert fault.message == "--dtype is fp8, not one of auto, bfloat16, float16, float32"
    assert fault.fix.startswith("--dtype bfloat16, for example")
    fault = with_target("--kv-cache-memory-bytes", "10G")
    assert fault.message.startswith("--kv-cache-memory-bytes is 10G, and G is not one of B KiB")
    assert with_target(SERVER_MAX_MODEL_LEN="32k").message.startswith("SERVER_MAX_MODEL_LEN is 32k")


@pytest.mark.parametrize("argv", [[], ["--draft", "D"]])
def test_a_missing_target_is_told(argv: list[str]) -> None:
    fault = only_fault(*argv)
    assert (fault.rule, fault.message) == ("SD704", "--target is not given")


@pytest.mark.parametrize("token", ["--check=yes", "--no-check=", "--help=me", "--list-rules=all"])
def test_a_switch_takes_no_value(token: str) -> None:
    fault = with_target(token)
    assert (fault.rule, fault.message.split(",")[0]) == (
        "SD704",
        f"{token.partition('=')[0]} takes no value",
    )


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("--modle", "--model"),
        ("--max_model_len", "--max-model-len"),
        ("--kv-blok-size=16", "--kv-block-size"),
        ("--Draft", "--draft"),
        ("--no-chek", "--no-check"),
        ("--gpu-mem-utilization", "--gpu-memory-utilization"),
    ],
)
def test_an_unknown_flag_gets_a_suggestion(typed: str, near: str) -> None:
    fault = with_target(typed)
    assert (fault.rule, fault.fix) == ("SD703", f"did you mean {near}?")


def test_a_prefix_of_a_flag_is_not_the_flag() -> None:
    assert with_target("--gpu-mem", "0.5").rule == "SD703"


@pytest.mark.parametrize("name", ["help", "check", "plan", "version", "list-rules", "port"])
def test_a_flag_without_its_dashes_is_told_as_that(name: str) -> None:
    assert with_target(name).fix == f"did you mean --{name}?"


@pytest.mark.parametrize(
    ("flag", "typed", "meant"),
    [
        ("--kv-cache-memory-bytes", "12G", "12GiB"),
        ("--kv-cache-memory-bytes", "12gb", "12GB"),
        ("--kv-cache-memory-bytes", "1.5Gi", "1.5GiB"),
        ("--kv-cache-memory-bytes", "512m", "512MiB"),
        ("--memory-margin-bytes", "300mib", "300MiB"),
        ("--assume-memory", "2T", "2TiB"),
        ("--kv-cache-memory-bytes", "12 apples", "10GiB"),
        ("--gpu-memory-utilization", "85%", "0.85"),
        ("--gpu-memory-utilization", "85", "0.85"),
        ("--gpu-memory-utilization", "100", "1"),
        ("--gpu-memory-utilization", "7%", "0.07"),
        ("--gpu-memory-utilization", "7", "0.9"),  # or was it 0.7
        ("--gpu-memory-utilization", "1.5", "0.9"),
        ("--gpu-memory-utilization", "0%", "0.9"),
        ("--gpu-memory-utilization", "850", "0.9"),
    ],
)
def test_a_size_or_a_share_in_another_spelling_is_told_in_ours(
    flag: str, typed: str, meant: str
) -> None:
    plan = ("--plan",) if flag == "--assume-memory" else ()
    assert with_target(flag, typed, *plan).fix.startswith(f"{flag} {meant}, for example; ")


def test_an_unknown_flag_with_nothing_near_points_at_the_help() -> None:
    assert with_target("--zzz", "3").fix == "python -m server --help lists the flags"


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_a_flag_of_another_engine_is_explained_not_taken(name: str) -> None:
    typed = [name] if name == "--trust-remote-code" else [name, "1"]
    fault = with_target(*typed)
    assert fault.rule == "SD703"
    assert fault.message == f"{name} {FOREIGN[name].reason}"
    assert fault.fix == FOREIGN[name].fix


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("--mem-fraction-static=0.8", ("free before loading", "--gpu-memory-utilization")),
        ("--free_gpu_memory_fraction=0.9", ("free after loading", "--gpu-memory-utilization")),
        ("--speculative-algorithm=EAGLE3", ("SGLang", "--spec-method")),
        ("--speculative-config={}", ("JSON", "--draft")),
        ("--pipeline_parallel_size=2", ("whole layers", "--tensor-parallel-size")),
        ("--trust-remote-code", ("never", "leave it out")),
        ("--quantization=fp8", ("quantised", "bfloat16")),
    ],
)
def test_the_hint_says_what_differs(typed: str, words: tuple[str, str]) -> None:
    fault = with_target(typed)
    assert words[0] in fault.message
    assert words[1] in fault.fix


def test_a_positional_argument_is_hinted_at_target() -> None:
    fault = only_fault("Qwen3-8B", "--target", "T")
    assert fault.message == "Qwen3-8B stands behind no flag"
    assert fault.fix == "--target Qwen3-8B, if it names the target"


def test_what_follows_a_foreign_switch_is_not_its_value() -> None:
    found = faults("--target", "T", "--trust-remote-code", "X", "--host", "2")
    assert [f.message.split()[0] for f in found] == ["--trust-remote-code", "X", "--host"]


def test_the_value_of_an_unknown_flag_is_not_told_twice() -> None:
    found = faults("--bogus", "3", "--target", "T", "stray", "--bogus", "3")
    assert [f.message.split()[0] for f in found] == ["--bogus", "stray"]


def test_one_setting_with_two_values_names_both_places() -> None:
    fault = only_fault("--target", "T", "--model", "U")
    assert (fault.rule, exit_code_of([fault])) == ("SD705", ExitCode.USAGE)
    assert fault.message == "--target is T and --model is U, for one setting"
    assert [place.flag for place in fault.locations] == ["--target", "--model"]
    assert with_target("--dtype", "bf16", "--dtype", "fp16").rule == "SD705"


def test_a_switch_on_and_off_is_a_conflict() -> None:
    fault = with_target("--check", "--no-check")
    assert (fault.rule, fault.message) == ("SD705", "--check and --no-check are both given")


@pytest.mark.parametrize(
    ("argv", "environ"),
    [
        (["--num-speculative-tokens", "4"], {}),
        (["--spec-method", "dflash"], {}),
        (["--draft-kv-cache-dtype", "fp8"], {}),
        ([], {"SERVER_SPEC_METHOD": "dspark"}),
    ],
)
def test_a_drafting_flag_needs_a_draft(argv: list[str], environ: dict[str, str]) -> None:
    fault = only_fault("--target", "T", *argv, **environ)
    assert (fault.rule, exit_code_of([fault])) == ("SD701", ExitCode.USAGE)
    assert "--draft is not given" in fault.message
    assert not faults("--target", "T", "--draft", "D", *argv, **environ)


def test_the_automatic_method_needs_no_draft() -> None:
    assert not faults("--target", "T", "--spec-method", "auto", "--draft-kv-cache-dtype", "auto")


def test_a_refused_draft_is_not_also_told_missing() -> None:
    found = faults("--target", "T", "--draft=", "--spec-tokens", "3")
    assert [fault.message for fault in found] == ["--draft is empty"]


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("SERVER_DRAFFT", "did you mean SERVER_DRAFT? else unset it"),
        ("SERVER_MODEL", "did you mean SERVER_TARGET? else unset it"),
        ("SERVER_XYZ", "unset it"),
    ],
)
def test_an_unknown_variable_is_a_warning_without_its_value(name: str, fix: str) -> None:
    parsed = parse(["--target", "T"], {name: "s3cret"})
    (fault,) = parsed.outcome.findings
    assert (fault.rule, fault.severity, fault.fix) == ("SD604", Severity.WARNING, fix)
    assert "s3cret" not in repr(fault)
    assert parsed.options is not None


def test_variables_of_others_are_no_fault() -> None:
    others = {
        "SERVER_CACHE_DIR": "/c",
        "SERVER_GPU_TESTS": "any",
        "SERVERNAME": "x",
        "PATH": "/bin",
        "SERVER_SERVICE_HOST": "10.0.0.1",
        "SERVER_PORT": "tcp://10.0.0.1:80",
        "SERVER_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert not faults("--target", "T", **others)
    parsed = parse(["--target", "T"], others)
    assert parsed.options is not None
    assert parsed.options.port is None


def test_every_fault_is_told_in_one_pass() -> None:
    found = faults(
        "--bogus", "--dtype", "fp8", "--strict=1", "--max-num-seqs", "--color", "never",
        "--color=always", "stray", SERVER_DEVICE="tpu", SERVER_DRFT="x",
    )  # fmt: skip
    rules = sorted(fault.rule for fault in found)
    assert rules == [
        "SD604", "SD703", "SD703", "SD704", "SD704", "SD704", "SD704", "SD705", "SD706",
    ]  # fmt: skip


def test_a_hostile_value_cannot_forge_a_line() -> None:
    fault = with_target("--dtype", "x\naccepted: no findings; exit 0\x1b[2J")
    text = render_finding(fault, Style())
    assert "\x1b" not in text
    assert not any(line.startswith("accepted") for line in text.splitlines())


tokens = st.sampled_from(
    [spelling for flag in FLAGS for spelling in flag.spellings]
    + ["--", "-", "-x", "-hx", "--=", "=", "", "X", "--bogus=1", "-1", "\udc80", "\0", "auto", "1"]
)


@settings(deadline=None)
@given(argv=st.lists(tokens | st.text(max_size=6), max_size=8))
def test_no_command_line_makes_the_parser_fail(argv: list[str]) -> None:
    parsed = parse(argv, {})
    assert isinstance(parsed, Parsed)
    for fault in parsed.outcome.findings:
        render_finding(fault, Style()).encode("utf-8")


def test_mapped_weights_and_a_gpu_exclude_each_other() -> None:
    fault = with_target("--weights", "mapped", "--device", "cuda:1")
    assert (fault.rule, exit_code_of([fault])) == ("SD705", ExitCode.USAGE)
    assert fault.message == "--weights is mapped, and --device is cuda:1"
    by_variable = with_target("--device", "cuda", SERVER_WEIGHTS="mapped")
    assert by_variable.message == "SERVER_WEIGHTS is mapped, and --device is cuda"
    for device, weights in (("cuda", "private"), ("cpu", "mapped"), ("auto", "mapped")):
        argv = ("--target", "T", "--weights", weights, "--device", device)
        assert not faults(*argv)


@pytest.mark.parametrize(
    ("argv", "message", "near"),
    [
        (
            ["--plan", "--check"],
            "--check and --plan are both given",
            ["--plan", "--no-check"],
        ),
        (
            ["--plan", "--assume-gpu", "l4-24g", "--device", "cpu"],
            "--assume-gpu is l4-24g, and --device is cpu",
            ["--plan", "--assume-memory", "9GiB", "--device", "cpu"],
        ),
        (
            ["--report-html", "out/r", "--report-file", "out/./r"],
            "--report-html and --report-file are both out/r",
            ["--report-html", "out/r", "--report-file", "out/q"],
        ),
    ],
)
def test_what_leaves_no_answer_is_a_conflict(
    argv: list[str], message: str, near: list[str]
) -> None:
    fault = with_target(*argv)
    assert (fault.rule, fault.message) == ("SD705", message)
    assert not faults("--target", "T", *near)


@pytest.mark.parametrize("flag", [["--assume-memory", "9GiB"], ["--predict"], ["--no-predict"]])
def test_a_flag_of_a_plan_needs_a_plan(flag: list[str]) -> None:
    fault = with_target(*flag)
    assert (fault.rule, fault.message) == ("SD708", f"{flag[0]} is given, --plan is not")
    assert with_target("--no-plan", *flag).rule == "SD708"
    assert not faults("--target", "T", "--plan", *flag)


def test_outputs_that_exclude_each_other(tmp_path: Path) -> None:
    fault = with_target("--concise", "--output-format", "json")
    assert (fault.rule, exit_code_of([fault])) == ("SD705", ExitCode.USAGE)
    assert fault.message == "--concise is a form of text, and --output-format is json"
    fault = with_target("--report-file", "r", SERVER_JUNIT_FILE="r")
    assert (fault.rule, exit_code_of([fault])) == ("SD705", ExitCode.USAGE)
    assert fault.message == "--report-file and SERVER_JUNIT_FILE are both r"
    (tmp_path / "link").symlink_to(tmp_path / "r")
    fault = with_target("--report-file", f"{tmp_path}/r", "--termination-log", f"{tmp_path}/link")
    assert fault.message == f"--report-file and --termination-log are both {tmp_path}/r"
    for argv in (
        ["--concise", "--output-format", "text"],
        ["--no-concise", "--output-format", "json"],
        ["--report-file", "r", "--junit-file", "j"],
    ):
        assert parse(["--target", "T", *argv], {}).options is not None
