"""The real pynvml over a library that says what a script tells it: devices, errors, lies."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.memory.nvml_stand_in import (
    BEFORE_510,
    NOTHING,
    WHOLE,
    Asker,
    compiled,
    gpu,
    script,
)

GIB = 2**30
A, B = "GPU-aaaa-1", "GPU-bbbb-1"
TWO = script(gpu("a"), gpu("b", total=24 * GIB, free=20 * GIB))
BUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
SLICE = {"name": "Card a MIG 3g", "uuid": "MIG-cccc", "total": 20 * GIB, "free": 19 * GIB}
MIG = script(gpu("a", mig=1, slices=7, parts=[SLICE, {**SLICE, "uuid": "MIG-dddd"}]))


def running(folder: Path, options: tuple[str, ...]) -> Iterator[Asker]:
    asker = Asker(folder, compiled(folder, options).environment)
    yield asker
    assert asker.close() == 0


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    yield from running(tmp_path_factory.mktemp("driver"), WHOLE)


@pytest.fixture(scope="module")
def old_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    yield from running(tmp_path_factory.mktemp("old_driver"), BEFORE_510)


def facts(asker: Asker, told: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    found: dict[str, Any] = asker.ask(told, **more)["facts"]
    return found


def users(asker: Asker, **told: object) -> list[tuple[int | None, int | None]]:
    found = facts(asker, script(gpu("a", **told)))
    return [(tenant["host_pid"], tenant["used_bytes"]) for tenant in found["tenants"]]


def test_one_gpu_is_told_with_all_its_figures(driver: Asker) -> None:
    found = driver.ask(script(gpu("a", processes=f"4711:{5 * GIB} 4712:?")))
    assert found["facts"]["name"] == "Card a"
    assert found["facts"]["uuid"] == A
    assert (found["facts"]["total_bytes"], found["facts"]["free_bytes"]) == (80 * GIB, 70 * GIB)
    assert found["remarks"] == [
        "why this device: NVML lists it",
        "the driver keeps 512.00 MiB of the total",
        "2 others hold memory of this device, 5.00 GiB as NVML tells: "
        "host pid 4711 5.00 GiB, host pid 4712 an unknown size",
    ]
    assert found["found"] == []


@pytest.mark.parametrize("second", ["3", "13", "25"])
def test_where_the_second_memory_figures_fail_the_first_are_taken(
    driver: Asker, second: str
) -> None:
    told = script(gpu("a", nvmlDeviceGetMemoryInfo_v2=second, nvmlDeviceGetMemoryInfo="0"))
    found = driver.ask(told)
    assert (found["facts"]["total_bytes"], found["facts"]["free_bytes"]) == (80 * GIB, 70 * GIB)
    assert found["remarks"] == ["why this device: NVML lists it"]


def test_a_driver_before_510_is_read_by_its_own_functions(old_driver: Asker) -> None:
    found = old_driver.ask(script(gpu("a", processes=f"4711:{GIB}", mig=1)))
    assert found["facts"]["total_bytes"] == 80 * GIB
    assert found["facts"]["tenants"] == [{"host_pid": 4711, "used_bytes": GIB}]


def test_unified_memory_has_no_figures_and_says_so(driver: Asker) -> None:
    told = script(gpu("a", nvmlDeviceGetMemoryInfo_v2=3, nvmlDeviceGetMemoryInfo=3))
    found = driver.ask(told)
    assert (found["facts"]["total_bytes"], found["facts"]["free_bytes"]) == (None, None)
    assert found["facts"]["uuid"] == A
    assert "NVML has no memory figures (Not Supported): they come from CUDA" in found["remarks"]


@pytest.mark.parametrize(
    ("call", "code", "reason"),
    [
        ("nvmlInit", 9, "Driver Not Loaded"),
        ("nvmlInit", 4, "Insufficient Permissions"),
        ("nvmlInit", 18, "RM has detected an NVML/RM version mismatch."),
        ("nvmlInit", 12, "NVML Shared Library Not Found"),
        ("nvmlInit", 6, "Not Found"),
        ("nvmlInit", 3, "Not Supported"),
        ("nvmlInit", 777, "NVML Error with code 777"),
        ("nvmlDeviceGetCount", 999, "Unknown Error"),
    ],
)
def test_an_nvml_that_fails_is_a_note_and_the_boot_goes_on(
    driver: Asker, call: str, code: int, reason: str
) -> None:
    found = driver.ask(script(gpu("a"), **{call: code}), device="auto")
    assert found["found"] == [["SD603", f"NVML: unavailable ({reason})"]]
    assert found["facts"]["kind"] == "cpu"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: compiled(folder, NOTHING), "Function Not Found"),
        (
            lambda folder: (folder / "libnvidia-ml.so.1").write_text("none"),
            "NVML Shared Library Not Found",
        ),
    ],
)
def test_a_library_that_is_none_is_a_note(
    make: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    make(tmp_path)
    paths = {"LD_LIBRARY_PATH": str(tmp_path), "NVML_SCRIPT": str(tmp_path / "script")}
    asker = Asker(tmp_path, paths)
    assert asker.ask("", device="auto")["found"] == [["SD603", f"NVML: unavailable ({reason})"]]
    assert asker.close() == 0


@pytest.mark.parametrize("where", ["nvmlInit", "nvmlShutdown", "nvmlDeviceGetCount"])
def test_an_nvml_that_hangs_is_given_up_and_the_process_can_end(tmp_path: Path, where: str) -> None:
    asker = Asker(tmp_path, compiled(tmp_path).environment)
    (asker.dev / "nvidiactl").touch()
    found = asker.ask(script(gpu("a"), **{where: "hang"}), limit_s=0.5)
    assert found["found"] == [["SD603", "NVML: unavailable (no answer in 0.5 s)"]]
    assert found["facts"]["kind"] == "cuda"
    again = asker.ask(script(gpu("a")))  # which does not wait another time
    assert again["found"] == [
        ["SD603", "NVML: unavailable (an earlier question is not answered yet)"]
    ]
    assert asker.close() == 0


def test_a_lost_gpu_does_not_hide_the_others(driver: Asker) -> None:
    told = script(gpu("a", nvmlDeviceGetHandleByIndex=15), gpu("b"))
    assert facts(driver, told, CUDA_VISIBLE_DEVICES=B)["total_bytes"] == 80 * GIB
    # CUDA may not count the lost one, and then number 1 is none or another.
    assert facts(driver, told, CUDA_VISIBLE_DEVICES="1", **BUS)["uuid"] is None
    alone = driver.ask(script(gpu("a", nvmlDeviceGetHandleByIndex=15)))
    assert alone["facts"]["name"] == "GPU 0"
    assert "NVML has no memory figures (GPU is lost): they come from CUDA" in alone["remarks"]


@pytest.mark.parametrize("code", [3, 4, 15])
def test_a_gpu_that_answers_nothing_has_no_figures(driver: Asker, code: int) -> None:
    names = ("Name", "UUID", "MigMode", "MemoryInfo", "MemoryInfo_v2", "ComputeRunningProcesses")
    found = driver.ask(script(gpu("a", mig=0, **{f"nvmlDeviceGet{name}": code for name in names})))
    told = found["facts"]
    assert (told["name"], told["uuid"], told["total_bytes"]) == ("unnamed GPU", None, None)
    assert "other processes: NVML does not tell" in found["remarks"]
    assert found["found"] == []


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        ("", []),
        ("4711:5", [(4711, 5)]),
        ("0:0", [(None, 0)]),  # WSL
        ("0xffffffff:5", [(None, 5)]),
        ("4711:?", [(4711, None)]),
        ("4711:0xfffffffffffffff0", [(4711, None)]),
    ],
)
def test_users_are_told_as_far_as_they_can_be_true(
    driver: Asker, processes: str, expected: list[object]
) -> None:
    assert users(driver, processes=processes) == expected


@pytest.mark.parametrize("more", [{"processes_count": 4_000_000_000}, {"processes_count": 8}])
def test_a_list_of_users_longer_than_it_is_is_no_list(driver: Asker, more: dict[str, int]) -> None:
    assert users(driver, processes="4711:5", **more) == []


def test_of_many_users_the_largest_are_listed(driver: Asker) -> None:
    many = " ".join(f"{100 + n}:{n * GIB}" for n in range(10))
    told = driver.ask(script(gpu("a", processes=many)))["remarks"][-1]
    assert told.startswith(
        "10 others hold memory of this device, 45.00 GiB as NVML tells: host pid 109"
    )
    assert told.endswith("host pid 102 2.00 GiB, and 2 more")


@pytest.mark.parametrize(
    ("total", "free"),
    [(0, 0), (0, 5), (80 * GIB, 80 * GIB + 1), (-1, -1), (-1, 5), (2**60, 5), (5, -1)],
)
def test_memory_figures_that_cannot_be_true_are_left_out(
    driver: Asker, total: int, free: int
) -> None:
    found = driver.ask(script(gpu("a", total=total, free=free)))
    assert (found["facts"]["total_bytes"], found["facts"]["free_bytes"]) == (None, None)
    assert any("NVML has no memory figures (it says " in told for told in found["remarks"])


def test_a_reserve_larger_than_what_is_used_is_left_out(driver: Asker) -> None:
    assert driver.ask(script(gpu("a", reserved=11 * GIB)))["remarks"] == [
        "why this device: NVML lists it"
    ]
    assert len(driver.ask(script(gpu("a", reserved=10 * GIB)))["remarks"]) == 2


@pytest.mark.parametrize(("count", "told"), [(257, "257"), (-1, "4294967295")])
def test_an_impossible_count_of_gpus_is_no_answer(driver: Asker, count: int, told: str) -> None:
    found = driver.ask(script(gpu("a"), count=count), device="auto")
    assert found["found"] == [["SD603", f"NVML: unavailable (it counts {told} GPUs)"]]


@pytest.mark.parametrize("name", ["\xff\xfe", ""])
def test_a_name_that_is_no_text_is_left_out_alone(driver: Asker, name: str) -> None:
    found = facts(driver, script(gpu("a", name=name)))
    assert (found["name"], found["uuid"], found["total_bytes"]) == ("unnamed GPU", A, 80 * GIB)


@pytest.mark.parametrize(
    ("value", "uuids"),
    [
        ("0", [A]),
        ("1,0", [B, A]),
        ("+1", [B]),
        ("1x,0y", [B, A]),
        ("0,-1,1", [A]),
        ("0,7,1", [A]),
        ("0,,1", [A]),
        ("0,nonsense,1", [A]),
        ("0,0", []),
        ("1,0,1", []),
        ("0,-1,0", [A]),
        ("nonsense", []),
        (A, [A]),
        (f"{B},{A}", [B, A]),
        ("GPU-b", [B]),
        ("GPU-b,GPU-a", [B, A]),
        ("GPU-bbbb,GPU-b", []),
        ("GPU-", []),
        ("GPU-z,GPU-a", []),
        (f"{A},1", [A]),
        (f"1,{A}", [B]),
        ("99999999999999999999", []),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(
    driver: Asker, value: str, uuids: list[str]
) -> None:
    seen = []
    for index in range(3):
        found = driver.ask(TWO, device=f"cuda:{index}", CUDA_VISIBLE_DEVICES=value, **BUS)
        if found["facts"] is None:
            (told,) = found["found"]
            where = f"NVML lists 2 GPUs, {len(uuids)} of them visible"
            assert told == [
                "SD601",
                f"device cuda:{index} is not usable: {where} (CUDA_VISIBLE_DEVICES={value})",
            ]
            break
        seen.append(found["facts"]["uuid"])
    assert seen == uuids


@pytest.mark.parametrize("order", ["FASTEST_FIRST", "", "pci_bus_id"])
def test_without_bus_order_a_number_can_be_any_gpu(driver: Asker, order: str) -> None:
    found = facts(driver, TWO, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER=order)
    assert (found["uuid"], found["total_bytes"]) == (None, 80 * GIB)
    assert facts(driver, TWO, CUDA_VISIBLE_DEVICES="1", **BUS)["total_bytes"] == 24 * GIB


@pytest.mark.parametrize("value", ["MIG-cccc", "MIG-c"])
def test_a_mig_slice_has_its_own_figures_and_names_its_parent(driver: Asker, value: str) -> None:
    found = driver.ask(MIG, CUDA_VISIBLE_DEVICES=value)
    told = found["facts"]
    assert (told["name"], told["total_bytes"], told["free_bytes"]) == (
        "Card a MIG 3g",
        20 * GIB,
        19 * GIB,
    )
    assert f"a MIG slice of Card a {A}" in found["remarks"]
    assert told["uuid"] is None  # CUDA may give a slice its parent's, which is no other device


@pytest.mark.parametrize("second", ["0", A, ""])
def test_after_a_slice_only_slices_are_visible(driver: Asker, second: str) -> None:
    both = {"CUDA_VISIBLE_DEVICES": f"MIG-cccc,{second}"}
    assert driver.ask(MIG, device="cuda:0", **both)["facts"] is not None
    assert driver.ask(MIG, device="cuda:1", **both)["facts"] is None


def test_a_slice_that_nvml_gives_no_figures_of_still_names_its_parent(driver: Asker) -> None:
    part = {**SLICE, "nvmlDeviceGetMemoryInfo": 4, "nvmlDeviceGetMemoryInfo_v2": 4}
    told = script(gpu("a", mig=1, slices=1, parts=[part]))
    found = driver.ask(told, CUDA_VISIBLE_DEVICES="MIG-cccc")
    assert found["facts"]["total_bytes"] is None
    assert f"a MIG slice of Card a {A}" in found["remarks"]


@pytest.mark.parametrize(
    ("value", "code"), [("MIG-zzzz", 0), ("MIG-", 0), ("MIG-GPU-aaaa-1/1/0", 0), ("MIG-cccc", 4)]
)
def test_a_slice_that_nvml_does_not_list_is_left_to_cuda(
    driver: Asker, value: str, code: int
) -> None:
    told = f"{MIG}\n0.nvmlDeviceGetMigDeviceHandleByIndex={code}"
    found = driver.ask(told, CUDA_VISIBLE_DEVICES=value)
    assert (found["facts"]["kind"], found["facts"]["total_bytes"]) == ("cuda", None)
    unlisted = "a MIG slice that NVML does not list: the memory figures come from CUDA"
    assert unlisted in found["remarks"]


def test_a_gpu_in_mig_mode_has_no_figures_of_its_own(driver: Asker) -> None:
    found = driver.ask(MIG)
    assert (found["facts"]["name"], found["facts"]["total_bytes"]) == ("Card a", None)
    assert "MIG is on: the memory figures come from CUDA" in found["remarks"]
    garbage = facts(driver, script(gpu("a", mig=7)))
    assert garbage["total_bytes"] == 80 * GIB


def test_garbage_counts_of_slices_end(driver: Asker) -> None:
    told = script(gpu("a", mig=1, slices=-1, parts=[SLICE]))
    assert facts(driver, told, CUDA_VISIBLE_DEVICES="MIG-cccc")["total_bytes"] == 20 * GIB
