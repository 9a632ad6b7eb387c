"""Host memory on fake kernel trees: the smallest bound wins, whatever is missing."""

import os
from pathlib import Path

import pytest

from server.memory.host import (
    high_water_bytes,
    read_host,
    reset_high_water,
    resident_bytes,
    resident_set_bytes,
)
from tests.memory.fake_machine import MIB, FakeMachine, write

UNLIMITED_V1 = "9223372036854771712\n"


@pytest.fixture
def host(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def sizes(host: FakeMachine) -> tuple[int, int]:
    found = read_host(host.root / "proc", host.root / "cgroup")
    return found.total_bytes // MIB, found.available_bytes // MIB


def test_without_control_groups_the_machine_itself_is_the_bound(host: FakeMachine) -> None:
    assert sizes(host) == (1000, 800)
    assert read_host(host.root / "proc", host.root / "cgroup").notes == ()


def test_free_pages_that_a_cpu_keeps_are_available(host: FakeMachine) -> None:
    page = os.sysconf("SC_PAGE_SIZE")

    def keep(*mib: int) -> None:
        lists = "".join(
            f"    cpu: {cpu}\n              count:    {size * MIB // page}\n"
            f"              high:     {2**40}\n"
            for cpu, size in enumerate(mib)
        )
        write(host.root / "proc/zoneinfo", f"Node 0, zone Normal\n  pagesets\n{lists}")

    keep(70, 30)
    assert sizes(host) == (1000, 900)
    keep(0, 0)
    assert sizes(host) == (1000, 800)
    keep(150, 100)  # never more than there is
    assert sizes(host) == (1000, 1000)


def test_a_version_2_limit_wins_and_the_page_cache_can_be_had_back(
    host: FakeMachine,
) -> None:
    host.groups("0::/pod/box\n")
    host.group_file("pod/box/memory.max", f"{500 * MIB}\n")
    host.group_file("pod/box/memory.current", f"{300 * MIB}\n")
    stat = f"anon 5\ninactive_anon 9\nactive_file {60 * MIB}\ninactive_file {40 * MIB}\n"
    host.group_file("pod/box/memory.stat", stat)
    assert sizes(host) == (500, 300)
    (note,) = read_host(host.root / "proc", host.root / "cgroup").notes
    assert note.endswith("pod/box/memory.max limits host memory to 500.00 MiB")


def test_a_limit_above_the_machines_memory_binds_nothing(host: FakeMachine) -> None:
    host.groups("0::/pod\n")
    host.group_file("pod/memory.max", f"{1001 * MIB}\n")
    assert sizes(host) == (1000, 800)


def test_a_parents_limit_binds_when_the_group_itself_says_max(host: FakeMachine) -> None:
    host.groups("0::/pod/box\n")
    host.group_file("pod/box/memory.max", "max\n")
    host.group_file("pod/memory.max", f"{600 * MIB}\n")
    host.group_file("pod/memory.current", f"{50 * MIB}\n")
    assert sizes(host) == (600, 550)


def test_inside_a_container_the_path_is_not_there_and_the_mounts_root_binds(
    host: FakeMachine,
) -> None:
    host.groups("0::/kubepods/pod1/box\n")
    host.group_file("memory.max", f"{400 * MIB}\n")
    assert sizes(host) == (400, 400)


def test_a_path_that_leads_out_of_the_mount_is_not_followed(host: FakeMachine) -> None:
    write(host.root / "outside/memory.max", f"{1 * MIB}\n")
    host.groups("0::/../outside\n")
    host.group_file("memory.max", f"{450 * MIB}\n")
    assert sizes(host) == (450, 450)


def test_version_1_is_read_and_its_unlimited_number_binds_nothing(host: FakeMachine) -> None:
    host.groups("7:cpu:/x\n4:memory,hugetlb:/box\n0::/\n")
    host.group_file("memory/memory.limit_in_bytes", UNLIMITED_V1)
    assert sizes(host) == (1000, 800)
    host.group_file("memory/box/memory.limit_in_bytes", f"{300 * MIB}\n")
    host.group_file("memory/box/memory.usage_in_bytes", f"{120 * MIB}\n")
    stat = f"active_file 7\ntotal_active_file {5 * MIB}\ntotal_inactive_file {15 * MIB}\n"
    host.group_file("memory/box/memory.stat", stat)
    assert sizes(host) == (300, 200)


def test_a_full_group_leaves_nothing_but_never_less(host: FakeMachine) -> None:
    host.groups("0::/\n")
    host.group_file("memory.max", f"{100 * MIB}\n")
    host.group_file("memory.current", f"{101 * MIB}\n")
    assert sizes(host) == (100, 0)


@pytest.mark.parametrize("text", ["", "max", "-1", "many", "9" * 40, "1.5"])
def test_what_is_not_a_count_binds_nothing(host: FakeMachine, text: str) -> None:
    host.groups("0::/\n")
    host.group_file("memory.max", text)
    assert sizes(host) == (1000, 800)


@pytest.mark.parametrize("lines", ["", "\n", "garbage\n", "0::\n", ":::\n", "4:memory\n"])
def test_an_odd_group_list_binds_nothing(host: FakeMachine, lines: str) -> None:
    host.groups(lines)
    assert sizes(host) == (1000, 800)


@pytest.mark.parametrize(
    ("label", "available"), [("Max address space", 196), ("Max data size", 198)]
)
def test_a_process_limit_binds(host: FakeMachine, label: str, available: int) -> None:
    host.limits(label, "unlimited")
    assert sizes(host) == (1000, 800)
    host.limits(label, str(200 * MIB))
    assert sizes(host) == (200, available)
    (note,) = read_host(host.root / "proc", host.root / "cgroup").notes
    assert note == f"process limit ({label}) limits host memory to 200.00 MiB"


@pytest.mark.parametrize(("kept_mib", "available"), [(500, 196), (604, 196), (605, 195), (900, 0)])
def test_files_that_are_kept_are_not_taken_from_a_process_limit_too(
    host: FakeMachine, kept_mib: int, available: int
) -> None:
    host.limits("Max address space", str(200 * MIB))
    proc, cgroup = host.root / "proc", host.root / "cgroup"
    assert read_host(proc, cgroup, kept_mib * MIB).available_bytes == available * MIB


def test_without_proc_the_total_comes_from_the_system(tmp_path: Path) -> None:
    found = read_host(tmp_path / "proc", tmp_path / "cgroup")
    assert found.total_bytes > 0
    assert found.available_bytes == found.total_bytes
    assert resident_bytes(tmp_path / "proc") == 0
    assert not reset_high_water(tmp_path / "proc")


def test_resident_counts_anonymous_and_shared_pages(host: FakeMachine) -> None:
    assert resident_bytes(host.root / "proc") == 4 * MIB


def test_this_machine_has_memory_and_this_process_uses_some() -> None:
    found = read_host()
    assert 0 < found.available_bytes < found.total_bytes
    assert 0 < resident_bytes() <= resident_set_bytes() < found.total_bytes
    resident = resident_set_bytes()
    assert high_water_bytes() >= resident  # asked for later: what asks takes pages too


def test_ranks_divide_what_is_shared_and_nothing_that_is_a_process_s_own(
    host: FakeMachine,
) -> None:
    proc, cgroup = host.root / "proc", host.root / "cgroup"
    found = read_host(proc, cgroup, sharers=4)
    assert (found.total_bytes, found.available_bytes) == (250 * MIB, 200 * MIB)
    assert found.notes == ("4 ranks share this host: its memory is divided by 4",)
    host.limits("Max address space", str(240 * MIB))
    assert read_host(proc, cgroup, sharers=4).total_bytes == 240 * MIB
    assert read_host(proc, cgroup, kept_bytes=80 * MIB, sharers=4).available_bytes == 180 * MIB
