"""All faults, and what may be wrong with how a boot met one."""

from collections.abc import Iterator

from tests.faults.around import AROUND
from tests.faults.fault import Fault
from tests.faults.files import FILES
from tests.faults.moments import MOMENTS
from tests.faults.place import Came

FAULTS: tuple[Fault, ...] = (*FILES, *AROUND, *MOMENTS)
_CONTROL = {chr(code) for code in (*range(9), *range(11, 32), 127, *range(128, 160))}


def wrong_with(fault: Fault, came: Came) -> Iterator[str]:
    """Each thing that is not as it must be; nothing for a boot that met the fault well."""
    told = came.stdout + came.stderr
    if came.code != fault.code:
        yield f"exit code {came.code}, not {fault.code}"
    if fault.said not in (came.headline if "[SD" in fault.said else came.stderr):
        yield f"{came.headline!r} does not say {fault.said!r}"
    if "Traceback" in told or "Error:" in told:
        yield "a traceback"
    if marks := sorted(_CONTROL & set(told)):
        yield f"control characters {marks}"
    if came.left_files:
        yield f"left files: {came.left_files}"
    if came.left_processes:
        yield f"left {came.left_processes} processes"
    if fault.code and came.stderr and f"exit {fault.code}" not in came.stderr.splitlines()[-1]:
        yield f"the last line is {came.stderr.splitlines()[-1]!r}"
