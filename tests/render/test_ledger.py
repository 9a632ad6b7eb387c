"""The ledger as a table and as a bar: everything adds up."""

from hypothesis import given, settings
from hypothesis import strategies as st

from server.render.ledger import (
    exact,
    kv_lines,
    ledger_bar,
    ledger_legend,
    ledger_table,
    render_memory,
    shares,
    size,
)
from server.render.style import Style
from server.report import KvFacts, LedgerLine, MemoryFacts, RankFacts

MIB = 1_048_576
KV = KvFacts(147_456, 20_480, 16, 2_686_976, 101, 1, 1_600, 800, 1)


def make_memory(*lines: LedgerLine, limit_bytes: int | None = None) -> MemoryFacts:
    billed = sum(line.billed_bytes for line in lines)
    limit = billed if limit_bytes is None else limit_bytes
    return MemoryFacts("CPU", 2 * limit, limit, "0.5", lines)


SMALL = make_memory(
    LedgerLine("target weights", 300 * MIB, 300 * MIB),
    LedgerLine("activations", 10 * MIB, 10 * MIB - 77, "a prefill of 64 tokens"),
    LedgerLine("graphs", 0, 4096),
    LedgerLine("KV pool", 90 * MIB),
)


def test_a_table_letter_for_letter() -> None:
    assert ledger_table(SMALL) == (
        "     line            billed bytes              measured bytes              difference\n"
        "  A  target weights     314572800  300.00 MiB       314572800  300.00 MiB           0\n"
        "  B  activations         10485760   10.00 MiB        10485683   10.00 MiB         -77\n"
        "  C  graphs                     0         0 B            4096    4.00 KiB       +4096"
        "  4.00 KiB\n"
        "  D  KV pool             94371840   90.00 MiB               -                       -\n"
        "     limit              419430400  400.00 MiB"
    )


def test_a_bill_above_the_limit_shows_both_sums() -> None:
    table = ledger_table(make_memory(LedgerLine("target weights", 5000), limit_bytes=4000))
    assert [line.split()[:-2] for line in table.splitlines()[2:]] == [
        ["billed", "in", "all", "5000"],
        ["limit", "4000"],
    ]


def test_ranks_stand_side_by_side_with_what_each_measured() -> None:
    other = (LedgerLine("target weights", 300, 299), LedgerLine("KV pool", 90))
    ranks = (RankFacts(0, "CPU", 400, SMALL.ledger), RankFacts(1, "CPU", 401, other))
    text = render_memory(SMALL._replace(ranks=ranks), Style())
    assert (
        "  measured bytes by rank\n"
        "    rank  limit  target weights  activations  graphs\n"
        "    0       400       314572800     10485683    4096\n"
        "    1       401             299            -       -\n"
    ) in text + "\n"


def test_a_bar_letter_for_letter() -> None:
    assert ledger_bar(SMALL, Style(bar_width=20)) == "A" * 15 + "B" + "D" * 4
    blocks = ledger_bar(SMALL, Style(bar_width=20, blocks=True))
    assert blocks == "A" + "\u2588" * 14 + "B" + "D" + "\u2591" * 3


def test_the_legend_names_each_segment_and_no_other() -> None:
    legend = ledger_legend(SMALL, Style(bar_width=50))
    assert legend == ("A target weights 300.00 MiB\nB activations 10.00 MiB   D KV pool 90.00 MiB")


amounts_of = st.lists(st.integers(0, 2**45), min_size=1, max_size=20)


@settings(deadline=None)
@given(amounts=amounts_of, width=st.integers(20, 200))
def test_the_segments_fill_the_bar_exactly(amounts: list[int], width: int) -> None:
    cells = shares(amounts, width)
    assert sum(cells) == (width if any(amounts) else 0)
    assert all((cell > 0) == (amount > 0) for cell, amount in zip(cells, amounts, strict=True))


@settings(deadline=None)
@given(amounts=amounts_of, width=st.integers(20, 200))
def test_a_larger_amount_never_has_a_shorter_segment(amounts: list[int], width: int) -> None:
    ordered = sorted(amounts, reverse=True)
    cells = shares(ordered, width)
    assert cells == sorted(cells, reverse=True)


@settings(deadline=None)
@given(width=st.integers(20, 200), share=st.integers(1, 99))
def test_a_segment_is_as_long_as_its_share(width: int, share: int) -> None:
    cells = shares([share, 100 - share], width)
    assert abs(cells[0] - width * share / 100) <= 1


@settings(deadline=None)
@given(amounts=amounts_of, color=st.booleans(), blocks=st.booleans())
def test_a_bar_has_its_width_with_and_without_colour(
    amounts: list[int], color: bool, blocks: bool
) -> None:
    memory = make_memory(*(LedgerLine(f"line {n}", amount) for n, amount in enumerate(amounts)))
    bar = ledger_bar(memory, Style(color=color, blocks=blocks, bar_width=64))
    for code in ("\x1b[0m", *(f"\x1b[{number}m" for number in range(31, 37))):
        bar = bar.replace(code, "")
    assert len(bar) == (64 if any(amounts) else 0)


def test_more_lines_than_cells_and_negative_lines_do_not_break_the_bar() -> None:
    assert shares([1] * 30, 20) == [1] * 30
    assert shares([-5, 10], 20) == [0, 20]
    assert shares([], 20) == []
    assert shares([1, 2**60], 20) == [1, 19]


def test_sizes_are_rounded_without_floats() -> None:
    assert [size(n) for n in (0, 1023, 1024, 1536, 157_286_400)] == [
        "0 B", "1023 B", "1.00 KiB", "1.50 KiB", "150.00 MiB",
    ]  # fmt: skip
    assert size(16_381_470_720) == "15.26 GiB"
    assert size(2**43) == "8.00 TiB"
    assert size(-3 * MIB) == "-3.00 MiB"
    assert exact(999) == "999 B"
    assert exact(16_381_470_720) == "16381470720 B (15.26 GiB)"


def test_the_pool_letter_for_letter() -> None:
    assert kv_lines(KV) == (
        "KV per token    147456 B target + 20480 B draft = 167936 B\n"
        "KV block        16 tokens, 2686976 B (2.56 MiB)\n"
        "KV pool         101 blocks, 1 of them reserved, 271384576 B (258.81 MiB)\n"
        "usable          1600 tokens\n"
        "longest request 800 tokens; 1 of that length fit at once"
    )


def test_the_types_in_the_pool_are_told_where_they_are_known() -> None:
    for kv, words in (
        (KV._replace(target_dtype="bfloat16"), "target bfloat16"),
        (
            KV._replace(target_dtype="fp8_e4m3", draft_dtype="bfloat16"),
            "target fp8_e4m3, draft bfloat16",
        ),
    ):
        assert kv_lines(kv).splitlines()[1] == f"KV stored as    {words}"


def test_the_whole_report_has_every_part() -> None:
    facts = MemoryFacts(
        "NVIDIA A100\x1b", 80_000, 72_000, "0.9", SMALL.ledger, KV, 1234, ("NVML was not read",)
    )
    lines = render_memory(facts, Style(verbose=True, bar_width=40)).splitlines()
    assert lines[0] == "memory of NVIDIA A100\\x1b"
    assert lines[1] == (
        "  total 80000 B (78.13 KiB); limit 72000 B (70.31 KiB), utilization 0.9 of the total"
    )
    assert len([line for line in lines if set(line.strip()) == set("ABD")]) == 1
    assert "  not explained   1234 B (1.21 KiB)" in lines
    assert lines[-2:] == ["  NVML was not read", "  B: a prefill of 64 tokens"]
    assert "a prefill" not in render_memory(facts, Style())


def test_a_device_without_a_ledger_is_told_too() -> None:
    facts = MemoryFacts("CPU", 1000, 900, "0.9")
    assert len(render_memory(facts, Style()).splitlines()) == 2
