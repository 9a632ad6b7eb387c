"""The ranks agree on one verdict: who tells it, and the code that all end with."""

import io
import json
import signal
import threading
from dataclasses import replace

import pytest

from server.config.rules import finding
from server.ending import BOOTING, HOLDING, Council, Ended, Voice
from server.findings import outcome_of
from server.kin import own_mark
from server.log import Log
from server.peers import gather_memory
from server.render.console import Console
from server.render.style import Style
from server.report import LedgerLine, MemoryFacts, Report
from server.seats import RankLost, Seat

SEATS = [Seat(rank, 2, rank, 2, started=True) for rank in (0, 1)]
ERROR = outcome_of("SD415", [finding("SD415", "a file changed")])


class Store:
    """What the ranks share, as torch's stores have it."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def set(self, key: str, text: str) -> None:
        self.kept[key] = text.encode()

    def get(self, key: str) -> bytes:
        return self.kept[key]

    def add(self, key: str, number: int) -> int:
        found = int(self.kept.get(key, b"0")) + number
        self.set(key, str(found))
        return found

    def check(self, keys: list[str]) -> bool:
        return all(key in self.kept for key in keys)


class Rank:
    """One rank with its log; `said` is what it printed."""

    def __init__(self, seat: Seat, store: Store) -> None:
        self.council = Council(seat, lambda: store)  # type: ignore[arg-type,return-value]
        self.out = io.StringIO()
        self.log = Log(Report(), Voice(self.council, Console(self.out, Style())))

    @property
    def said(self) -> str:
        return self.out.getvalue()

    def end(self) -> int:
        def finish() -> int:
            self.log.console.line("verdict")
            return self.log.report.exit_code

        return self.council.end(self.log, finish)


def under_torchrun(store: Store, world: int = 2) -> list[Rank]:
    """Ranks that have met, each of which is this process as far as the others know."""
    seats = [Seat(rank, world, rank, world, started=True, external=True) for rank in range(world)]
    found = [Rank(seat, store) for seat in seats]
    for one in found:
        store.set(f"here/{one.council.seat.rank}", "yes")
    for one in reversed(found):
        one.council.meet()
    return found


@pytest.mark.parametrize("what", [BOOTING, HOLDING])
def test_a_rank_that_is_gone_without_a_word_is_lost(what: str) -> None:
    store = Store()
    zero, one, two = under_torchrun(store, 3)
    assert zero.council.lost(what) is None
    here, pid, start = json.loads(own_mark())
    store.set("process/1", json.dumps([here, pid, f"{start}0"]))
    assert zero.council.lost(what) == two.council.lost(what) == 1
    one.council.leaves(what)
    assert zero.council.lost(what) is None
    assert zero.council.lost(HOLDING if what == BOOTING else BOOTING) == 1


def test_a_rank_says_that_it_ends_before_it_waits_for_the_others() -> None:
    store = Store()
    zero, one = under_torchrun(store)
    store.set("code", "0")
    store.set("left", "5")
    one.end()
    assert store.check(["booting/1"])
    assert not store.check(["booting/0"])
    zero.end()
    assert store.check(["booting/0"])


def test_the_ranks_of_a_launcher_leave_that_to_it(ranks: list[Rank]) -> None:
    ranks[0].council.leaves(BOOTING)
    assert ranks[0].council.lost(BOOTING) is None
    assert "booting/0" not in ranks[0].council.store.kept  # type: ignore[attr-defined]


@pytest.fixture
def ranks() -> list[Rank]:
    store = Store()
    return [Rank(seat, store) for seat in SEATS]


def test_without_a_fault_rank_0_speaks(ranks: list[Rank]) -> None:
    for rank in ranks:
        rank.log.console.line("loading")
    assert [rank.end() for rank in ranks] == [0, 0]
    assert [rank.said for rank in ranks] == ["loading\nverdict\n", ""]


@pytest.mark.parametrize("first", [0, 1])
def test_the_first_rank_with_a_fault_tells_it_and_the_others_nothing(
    ranks: list[Rank], first: int
) -> None:
    order = [ranks[first], ranks[1 - first]]
    for rank in order:
        rank.log.tell(ERROR)
    order[0].log.console.line("its bar")
    assert [rank.end() for rank in order] == [65, 65]
    assert order[0].said.count("a file changed") == 1
    assert order[0].said.endswith("its bar\nverdict\n")
    assert order[1].said == ""


def test_nothing_is_printed_after_the_verdict_that_another_rank_tells(ranks: list[Rank]) -> None:
    ranks[0].log.console.line("loading")
    ranks[1].log.tell(ERROR)
    ranks[0].log.console.line("profile ...")
    assert [ranks[1].end(), ranks[0].end()] == [65, 65]
    assert ranks[0].said == "loading\n"


@pytest.mark.parametrize("hears", [True, False])
def test_a_signal_that_comes_to_all_is_told_by_rank_0_unless_it_does_not_hear(
    ranks: list[Rank], monkeypatch: pytest.MonkeyPatch, hears: bool
) -> None:
    for rank in ranks:
        rank.log.report.ended_by_signal = signal.SIGTERM
    zero = threading.Thread(target=lambda: (ranks[0].log.console.line("load ends"), ranks[0].end()))

    def while_it_waits(_: float) -> None:
        if not zero.ident:
            zero.start()
            zero.join()

    monkeypatch.setattr("server.ending._CLAIM_S", 60.0 if hears else 0.0)
    monkeypatch.setattr("server.ending.time.sleep", while_it_waits)
    assert ranks[1].end() == 143
    assert [rank.said for rank in ranks] == (
        ["load ends\nverdict\n", ""] if hears else ["", "verdict\n"]
    )


def test_a_rank_that_loses_the_others_leaves_the_word_to_the_one_who_knows(
    ranks: list[Rank],
) -> None:
    knows, other = ranks[1], ranks[0]
    knows.log.tell(ERROR)
    assert knows.end() == 65
    assert other.council.explains(RankLost("connection closed"), other.log)
    assert (other.end(), other.said) == (65, "")


def test_a_rank_that_nobody_else_misses_tells_the_loss(
    ranks: list[Rank], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.ending._CLAIM_S", 0.0)
    assert ranks[1].council.explains(RankLost("connection closed"), ranks[1].log)
    assert ranks[1].end() == 75
    assert "rank 1 of 2 lost the others: connection closed" in ranks[1].said
    assert not ranks[1].council.explains(KeyError("a bug"), ranks[1].log)


def test_who_waits_for_a_rank_hears_of_its_end(ranks: list[Rank]) -> None:
    ranks[1].log.tell(ERROR)
    ranks[1].end()
    with pytest.raises(Ended):
        ranks[0].council.meet()
    assert ranks[0].council.explains(Ended(), ranks[0].log)
    assert (ranks[0].end(), ranks[0].said) == (65, "")


@pytest.mark.parametrize("refused", [True, False])
def test_at_the_gate_rank_0_has_the_first_word(refused: bool) -> None:
    store = Store()
    zero, one = (Rank(replace(seat, external=True), store) for seat in SEATS)
    if refused:
        zero.log.tell(ERROR)
        assert "a file changed" in zero.said  # before the store is asked for
        assert store.kept == {}
        store.add("left", 1)  # rank 1, which rank 0 waits for
        assert zero.end() == 65
    else:
        store.set("gate", "0")
    one.log.tell(ERROR)
    assert one.end() == 65
    assert ("a file changed" in one.said) is not refused


def test_a_rank_that_reaches_nobody_speaks_for_itself() -> None:
    def connect() -> None:
        raise RuntimeError("timed out")

    rank = Rank(replace(SEATS[1], external=True), Store())
    rank.council._connect = connect  # type: ignore[assignment]
    with pytest.raises(RankLost, match="timed out"):
        rank.council.meet()
    rank.log.tell(ERROR)
    assert rank.end() == 65
    assert "a file changed" in rank.said


def test_rank_0_tells_what_another_rank_measured_and_warns_of(ranks: list[Rank]) -> None:
    for number, rank in enumerate(ranks):
        ledger = (LedgerLine("KV pool", 100, 100 + number),)
        rank.log.report.memory = MemoryFacts("cpu", 200, 100, "0.5", ledger)
        rank.log.tell(outcome_of("SD511", [finding("SD511", "a note of each")]))
    ranks[1].log.tell(outcome_of("SD508", [finding("SD508", "KV pool: 1 B apart")]))
    told = [["KV pool", 100, 101]], [["SD508", "KV pool: 1 B apart"]]
    ranks[1].council.put("memory", json.dumps(["cpu", 100, *told]))
    gather_memory(ranks[0].council, ranks[0].log)
    assert "warning[SD508]" in ranks[0].said
    assert "rank 1: KV pool: 1 B apart" in ranks[0].said
    gather_memory(ranks[1].council, ranks[1].log)
    for rank in ranks:
        assert rank.log.report.memory is not None
        measured = [facts.ledger[0].measured_bytes for facts in rank.log.report.memory.ranks]
        assert measured == [100, 101]
    assert ranks[1].said == ""
