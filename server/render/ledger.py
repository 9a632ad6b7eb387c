"""The memory ledger as a table and as a bar. Pure functions of integers; nothing is measured here.

Bytes are printed in full, with a rounded size beside them, because two rounded sizes that look
equal may differ (https://github.com/vllm-project/vllm/pull/33358).
"""

from collections.abc import Sequence
from string import ascii_uppercase

from server.render.escape import visible
from server.render.style import Style
from server.render.text import count, wrap
from server.report import KvFacts, LedgerLine, MemoryFacts, RankFacts

_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_SHADES = "\u2588\u2593\u2592\u2591"


def size(size_bytes: int) -> str:
    """A size to two decimals in the largest binary unit that it fills: "15.26 GiB"."""
    sign, whole = ("-" if size_bytes < 0 else ""), abs(size_bytes)
    for unit_bytes, unit in _UNITS:
        if whole >= unit_bytes:
            hundredths = (whole * 200 + unit_bytes) // (2 * unit_bytes)
            return f"{sign}{hundredths // 100}.{hundredths % 100:02d} {unit}"
    return f"{sign}{whole} B"


def exact(size_bytes: int) -> str:
    """Bytes in full with the rounded size beside them."""
    rounded = size(size_bytes)
    return f"{size_bytes} B" if rounded.endswith(" B") else f"{size_bytes} B ({rounded})"


def rank_table(ranks: Sequence[RankFacts]) -> str:
    """The measured bytes of every rank, one row for each."""
    lines = [line.line for line in ranks[0].ledger if line.measured_bytes is not None]
    rows: list[tuple[str, ...]] = [("", "rank", "limit", *lines)]
    for rank in ranks:
        measured = {line.line: str(line.measured_bytes) for line in rank.ledger}
        cells = (visible(measured.get(line, "-")) for line in lines)
        rows.append(("", str(rank.rank), str(rank.limit_bytes), *cells))
    return "\n".join(("  measured bytes by rank", _align(rows)))


def key_of(index: int) -> str:
    """The letter of ledger line number `index`: A to Z, then a to z, then "?"."""
    keys = ascii_uppercase + ascii_uppercase.lower()
    return keys[index] if index < len(keys) else "?"


def ledger_table(memory: MemoryFacts) -> str:
    """The rows of the ledger in columns."""
    return _align(ledger_rows(memory))


def ledger_rows(memory: MemoryFacts) -> list[tuple[str, ...]]:
    """Key, line, billed, measured, difference, below their names; then the total, the limit."""
    rows: list[tuple[str, ...]] = [
        ("", "line", "billed bytes", "", "measured bytes", "", "difference", "")
    ]
    rows += [_row(key_of(index), line) for index, line in enumerate(memory.ledger)]
    billed = sum(line.billed_bytes for line in memory.ledger)
    if billed == memory.limit_bytes:
        rows.append(("", "limit", str(billed), size(billed), "", "", "", ""))
    else:
        # A refusal may show a bill that is larger than the limit.
        rows.append(("", "billed in all", str(billed), size(billed), "", "", "", ""))
        limit = memory.limit_bytes
        rows.append(("", "limit", str(limit), size(limit), "", "", "", ""))
    return rows


def _row(key: str, line: LedgerLine) -> tuple[str, ...]:
    """The cells of one line; an unmeasured one has dashes."""
    measured, difference = line.measured_bytes, line.difference_bytes
    if measured is None or difference is None:
        cells = ("-", "", "-", "")
    else:
        beside = size(difference) if abs(difference) >= 2**10 else ""
        cells = (str(measured), size(measured), f"{difference:+d}" if difference else "0", beside)
    return (key, visible(line.line), str(line.billed_bytes), size(line.billed_bytes), *cells)


def _align(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns; all but the key and the name are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            f"{cell:<{width}}" if at < 2 else f"{cell:>{width}}"
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def shares(amounts: Sequence[int], width: int) -> list[int]:
    """Cells for each amount: at least one where it is above 0, `width` in all.

    The rest is shared in proportion, the largest remainders first. Amounts below 0 count as 0. The
    sum is larger than `width` only where there are more amounts than cells, and 0 without any.
    """
    amounts = [max(amount, 0) for amount in amounts]
    total = sum(amounts)
    if total == 0:
        return [0] * len(amounts)
    cells = [1 if amount else 0 for amount in amounts]
    spare = max(width - sum(cells), 0)
    # What an amount earns above the one cell that it has anyway.
    wanted = [max(amount * width - total, 0) for amount in amounts]
    whole = sum(wanted)
    if whole == 0:
        wanted, whole = amounts, total
    cells = [cell + spare * want // whole for cell, want in zip(cells, wanted, strict=True)]
    order = sorted(range(len(cells)), key=lambda at: (-(spare * wanted[at] % whole), at))
    for at in order[: max(width - sum(cells), 0)]:
        cells[at] += 1
    return cells


def ledger_bar(memory: MemoryFacts, style: Style) -> str:
    """The billed lines as one bar of `style.bar_width` cells. Each segment begins with its key."""
    cells = shares([line.billed_bytes for line in memory.ledger], style.bar_width)
    return "".join(
        style.paint_segment(_segment(index, length, style.blocks), index)
        for index, length in enumerate(cells)
    )


def _segment(index: int, length: int, blocks: bool) -> str:
    """One segment: its key, then blocks of its shade, or its key all along."""
    if length == 0:
        return ""
    fill = _SHADES[index % len(_SHADES)] if blocks else key_of(index)
    return key_of(index) + fill * (length - 1)


def ledger_legend(memory: MemoryFacts, style: Style) -> str:
    """The keys of the bar with their lines and sizes; lines of 0 bytes have no segment."""
    entries = [
        f"{key_of(index)} {visible(line.line)} {size(line.billed_bytes)}"
        for index, line in enumerate(memory.ledger)
        if line.billed_bytes > 0
    ]
    lines: list[str] = []
    for entry in entries:
        if lines and len(lines[-1]) + len(entry) + 3 <= style.bar_width:
            lines[-1] += f"   {entry}"
        else:
            lines.append(entry)
    return "\n".join(lines)


def kv_lines(kv: KvFacts) -> str:
    """The KV pool in words: bytes per token, blocks, usable tokens, requests of full length."""
    per_token = kv.target_bytes_per_token + kv.draft_bytes_per_token
    return "\n".join(
        (
            f"KV per token    {kv.target_bytes_per_token} B target + "
            f"{kv.draft_bytes_per_token} B draft = {per_token} B",
            *_stored_as(kv),
            f"KV block        {count(kv.block_tokens, 'token')}, {exact(kv.block_bytes)}",
            f"KV pool         {count(kv.num_blocks, 'block')}, {kv.reserved_blocks} of them "
            f"reserved, {exact(kv.num_blocks * kv.block_bytes)}",
            f"usable          {count(kv.usable_tokens, 'token')}",
            f"longest request {count(kv.max_model_len, 'token')}; "
            f"{kv.full_length_requests} of that length fit at once",
        )
    )


def _stored_as(kv: KvFacts) -> list[str]:
    """The types in the pool, where they are known."""
    if kv.target_dtype is None:
        return []
    draft = f", draft {kv.draft_dtype}" if kv.draft_dtype else ""
    return [f"KV stored as    target {kv.target_dtype}{draft}"]


def render_memory(memory: MemoryFacts, style: Style) -> str:
    """The whole memory report: device, limit, table, bar with its legend, KV pool, remarks."""
    parts = [
        f"memory of {visible(memory.device)}",
        f"  total {exact(memory.total_bytes)}; limit {exact(memory.limit_bytes)}, "
        f"utilization {visible(memory.utilization)} of the total",
    ]
    if memory.ledger:
        parts.append(ledger_table(memory))
        bar = ledger_bar(memory, style) if style.bar_width else ""
        parts += [_indented(f"{bar}\n{ledger_legend(memory, style)}")] if bar else []
    parts += [rank_table(memory.ranks)] if memory.ranks else []
    parts += [_indented(kv_lines(memory.kv))] if memory.kv else []
    if memory.unexplained_bytes is not None:
        parts.append(f"  not explained   {exact(memory.unexplained_bytes)}")
    remarks = [*memory.notes, *(_remarks(memory.ledger) if style.verbose else ())]
    return "\n".join([*parts, *(f"  {wrap(remark, style.width, 2, 4)}" for remark in remarks)])


def _remarks(ledger: Sequence[LedgerLine]) -> list[str]:
    """What each line counts."""
    return [f"{key_of(at)}: {line.note}" for at, line in enumerate(ledger) if line.note]


def _indented(text: str) -> str:
    """Every line of `text`, two columns in."""
    return "\n".join(f"  {line}" for line in text.split("\n"))
