"""Findings and verdicts, letter for letter."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.config.rules import finding
from server.findings import ExitCode, Finding, JsonValue, Location, Severity, outcome_of
from server.render.style import Style
from server.render.text import (
    render_candidates,
    render_finding,
    render_ignored,
    render_settings,
    render_summary,
    render_verdict,
    wrap,
)
from server.report import DraftFacts, Report, SettingFacts, TargetFacts

PLAIN = Style()


def make_finding(
    *locations: Location,
    message: str = "draft covers 32768 positions, server asks for 40960",
    severity: Severity = Severity.ERROR,
    exit_code: ExitCode = ExitCode.CONFIG,
    why: str = "positions past 32768 are outside the draft's rotary table",
    fix: str = "--max-model-len 32752",
) -> Finding:
    return Finding(
        rule="SD204",
        name="draft-context-too-short",
        severity=severity,
        message=message,
        locations=locations,
        why=why,
        fix=fix,
        docs="python -m server --explain SD204",
        exit_code=exit_code,
    )


def place_lines(*locations: Location) -> list[str]:
    return render_finding(make_finding(*locations), PLAIN).splitlines()[1:-3]


def test_a_finding_letter_for_letter() -> None:
    found = make_finding(
        Location("draft", "/m/dflash-8b/config.json", "/max_position_embeddings", value=32768),
        Location("target", "Qwen3-8B", flag="max_model_len", value=40960, source="target config"),
        why="positions past 32768 index outside the draft's rotary table; the engine would crash "
        "on a long request",
        fix="--max-model-len 32752 (draft positions minus block 16), or use a draft that was "
        "trained for >= 40976",
    )
    assert render_finding(found, PLAIN) == (
        "error[SD204] draft-context-too-short: draft covers 32768 positions, server asks for "
        "40960\n"
        "  draft   /m/dflash-8b/config.json  #/max_position_embeddings = 32768\n"
        "  target  Qwen3-8B                  max_model_len = 40960  (from target config)\n"
        "  why     positions past 32768 index outside the draft's rotary table; the engine would "
        "crash on a\n"
        "          long request\n"
        "  fix     --max-model-len 32752 (draft positions minus block 16), or use a draft that "
        "was trained\n"
        "          for >= 40976\n"
        "  docs    python -m server --explain SD204"
    )


def test_a_flag_and_a_variable_are_not_named_twice() -> None:
    assert place_lines(
        Location("flag", flag="--dtype", value="fp8", source="flag --dtype"),
        Location("env", flag="SERVER_DTYPE", value="a b", source="env SERVER_DTYPE"),
        Location("flag", flag="--target", has_value=False),
    ) == ["  flag    --dtype = fp8", '  env     SERVER_DTYPE = "a b"', "  flag    --target"]


def test_a_default_is_told_as_the_source() -> None:
    assert place_lines(
        Location("flag", flag="dtype", value="bfloat16", source="default"),
        Location("target", flag="dtype", value="float16", source="from the target's config"),
        Location("flag", flag="dtype", value="float16", source="default for cpu: what is free"),
    ) == [
        "  flag    dtype = bfloat16  (default)",
        "  target  dtype = float16  (from the target's config)",
        "  flag    dtype = float16  (default for cpu: what is free)",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (1e-06, "1e-06"),
        (float("nan"), "nan"),
        ("16", '"16"'),
        ([1, 9, 17, 25, 33], "[1, 9, 17, 25, 33]"),
        ({"rope_type": "yarn"}, '{"rope_type": "yarn"}'),
        ([], "[]"),
        pytest.param(10**5000, "(an integer of 16610 bits)", id="long"),
    ],
)
def test_a_value_of_a_file_is_shown_as_json(value: JsonValue, shown: str) -> None:
    assert place_lines(Location("draft", "c.json", "/key", value=value)) == [
        f"  draft   c.json  #/key = {shown}"
    ]


def test_a_place_without_a_value_shows_none() -> None:
    assert place_lines(
        Location("draft", "config.json", "/fc", has_value=False),
        Location("draft", "config.json"),
        Location("device", value="NVIDIA A100", source="NVML"),
    ) == [
        "  draft   config.json  #/fc",
        "  draft   config.json",
        '  device  "NVIDIA A100"  (NVML)',
    ]


def test_long_values_and_lists_are_cut_and_say_so() -> None:
    (line,) = place_lines(Location("draft", "c", "/k", value="x" * 5000))
    assert line.endswith('(5000 characters)"')
    assert len(line) <= 100
    (line,) = place_lines(Location("draft", "c", "/k", value=["full_attention"] * 36))
    assert line.endswith(", ...] (36 items)")
    assert len(line) <= 100


def test_a_value_that_does_not_fit_behind_its_file_has_its_own_line() -> None:
    file = f"/models/{'d' * 80}/config.json"
    first, second = place_lines(Location("draft", file, "/hidden_size", value=4096))
    assert (first, second) == (f"  draft   {file}", "          #/hidden_size = 4096")


def test_text_is_wrapped_between_words_but_never_inside_a_value() -> None:
    path = "/a folder with spaces/" + "x" * 90
    text = wrap(f"the file '{path}' is \"as b\" it is", 40, 10, 4)
    assert f"'{path}'" in text
    assert '"as b"' in text
    assert wrap("aaa bbb ccc", 10, 3, 2) == "aaa bbb\n  ccc"
    assert wrap("isn't the draft's own", 10, 0, 0) == "isn't the\ndraft's\nown"


@pytest.mark.parametrize("width", [60, 100])
@settings(deadline=None)
@given(text=st.text("ab' \"", max_size=300))
def test_wrapping_loses_nothing_but_spaces(width: int, text: str) -> None:
    assert "".join(wrap(text, width, 20, 4).split()) == "".join(text.split())


@settings(deadline=None)
@given(text=st.lists(st.text("abcxyz", min_size=1, max_size=12), max_size=60).map(" ".join))
def test_wrapped_lines_fit(text: str) -> None:
    first, *others = wrap(text, 60, 20, 4).split("\n")
    assert len(first) <= 40
    assert all(len(line) <= 60 for line in others)


HOSTILE = (
    "a\nb", "\x1b[31mred", "\r\x08", "\u202eevil", "\udc80", "\u2066x", "\x9b1m", "\u2028", "\x00"
)  # fmt: skip


@pytest.mark.parametrize("evil", HOSTILE)
def test_text_from_outside_cannot_control_the_terminal(evil: str) -> None:
    everywhere = make_finding(
        Location(evil, evil, f"/{evil}", flag=evil, value=[evil, {evil: evil}], source=evil),
        Location("draft", evil, f"/{evil}", value=evil),
        message=evil,
        why=evil,
        fix=evil,
    )
    text = render_finding(everywhere, PLAIN)
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text.split("\n")) == 6
    text.encode("utf-8")


def test_printable_text_of_other_scripts_is_kept() -> None:
    (line,) = place_lines(Location("draft", "/modèles/模型/config.json"))
    assert line == "  draft   /modèles/模型/config.json"


def test_credentials_in_an_address_are_not_printed() -> None:
    (line,) = place_lines(
        Location("flag", flag="--target", value="https://me:hf_secret@host/model")
    )
    assert line == "  flag    --target = https://***@host/model"


def test_colour_adds_nothing_but_colour() -> None:
    found = make_finding(Location("draft", "config.json", "/block_size", value=16))
    plain, colored = render_finding(found, PLAIN), render_finding(found, Style(color=True))
    assert colored != plain
    for code in ("\x1b[1;31m", "\x1b[2m", "\x1b[0m"):
        colored = colored.replace(code, "")
    assert colored == plain


def make_report(*findings: Finding, elapsed_s: float = 0.184) -> Report:
    report = Report(findings=list(findings), elapsed_s=elapsed_s)
    report.not_done.append("target not loaded, device not touched")
    return report


def test_the_verdict_of_a_refusal() -> None:
    error, warning = make_finding(), make_finding(severity=Severity.WARNING)
    assert render_verdict(make_report(error, warning, error), PLAIN) == (
        "refused: 2 errors, 1 warning; target not loaded, device not touched; 0.18 s; exit 78"
    )


def test_the_verdict_of_a_good_boot_counts_what_was_not_printed() -> None:
    notes = [make_finding(severity=Severity.NOTE)] * 2
    report = make_report(*notes, elapsed_s=12)
    report.not_done.clear()
    assert render_verdict(report, PLAIN) == "accepted: 2 notes; 12.00 s; exit 0"
    report.findings.clear()
    assert render_verdict(report, PLAIN) == "accepted: no findings; 12.00 s; exit 0"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ExitCode.USAGE, "usage error: 1 error"),
        (ExitCode.SOFTWARE, "internal error: 1 error"),
        (ExitCode.TEMPFAIL, "refused: 1 error"),
    ],
)
def test_the_verdict_names_whose_fault_it_is(code: ExitCode, words: str) -> None:
    line = render_verdict(make_report(make_finding(exit_code=code)), PLAIN)
    assert line.startswith(words)
    assert line.endswith(f"exit {int(code)}")


def test_only_settings_that_are_not_defaults_are_printed() -> None:
    report = Report(
        settings={
            "target": SettingFacts("Qwen3-8B", "flag --model"),
            "check": SettingFacts(True, "env SERVER_CHECK"),
            "dtype": SettingFacts("auto", "default"),
        }
    )
    assert render_settings(report, PLAIN) == (
        "target  Qwen3-8B  (flag --model)\ncheck   true  (env SERVER_CHECK)"
    )
    assert render_settings(Report(), PLAIN) == ""


def test_the_summary_of_a_good_boot() -> None:
    report = Report(
        draft=DraftFacts("D", "/models/d", "dflash", "nested", "anchor-keep"),
        target=TargetFacts("Qwen3-8B", None, "Qwen3ForCausalLM"),
        self_test={"tokens": 7, "result": "passed"},
    )
    assert render_summary(report, PLAIN) == (
        "  draft      dflash (schema nested, layout anchor-keep) at /models/d\n"
        "  target     Qwen3ForCausalLM at Qwen3-8B\n"
        "  self-test  tokens 7, result passed"
    )


def test_the_summary_says_where_a_checkpoint_was_found() -> None:
    report = Report(target=TargetFacts("Qwen3-8B", "/c", "Qwen3ForCausalLM", "cache \x1b[31m"))
    assert render_summary(report, PLAIN).endswith("at /c (cache \\x1b[31m)")


def ignored(*keys: str) -> Report:
    report = Report()
    for key in keys:
        where = Location("draft", "/d/config.json", f"/{key}", value=1)
        report.add(outcome_of("SD111", [finding("SD111", f"{key} is ignored", where)]))
    return report


def test_ignored_keys_are_listed_where_notes_are_not() -> None:
    one = render_ignored(ignored("loss"), PLAIN)
    assert one == "ignored: nothing reads draft /loss (--verbose tells each)"
    many = render_ignored(ignored(*(f"k{n}" for n in range(10))), PLAIN)
    assert "draft /k7 and 2 more" in many.replace("\n    ", " ")
    assert render_ignored(ignored(), PLAIN) == ""
    assert render_ignored(ignored("loss"), PLAIN._replace(verbose=True)) == ""


def test_candidates_are_told_where_every_word_is_asked_for() -> None:
    asked = {"dspine (nested)": "no bridge", "eagle3 (flat)": "no \x1b[31m", "mtp (flat)": ""}
    report = Report(draft=DraftFacts("d", candidates=asked))
    assert render_candidates(report, PLAIN._replace(verbose=True)) == (
        "families asked before the draft's own:\n"
        "  dspine (nested)  no bridge\n"
        "  eagle3 (flat)    no \\x1b[31m"
    )
    assert render_candidates(report, PLAIN) == ""
    assert render_candidates(Report(), PLAIN._replace(verbose=True)) == ""
