"""Settings about dtypes that only the files can contradict, judged as soon as those are read.

They need no device, so that --check and --plan tell what a boot would. What the device itself
contradicts is judged in `server/placing.py`.
"""

from collections.abc import Iterator

from server.admission import Admission
from server.config.rules import finding
from server.findings import Finding, Location, Outcome, outcome_of
from server.options import MAPPED, Options


def judge_conversions(admission: Admission, options: Options) -> Outcome:
    """SD705: --weights mapped with weights to be converted, and KV types that are too wide."""
    found = (*_mapped(admission, options), *_stored(admission, options))
    # Without any, the command line has passed the rule already.
    return outcome_of("SD705", found) if found else Outcome()


def computed_dtype(admission: Admission, options: Options) -> str:
    """What both models compute in: as asked, else as the target is stored."""
    return admission.target_plan.dtype if options.dtype == "auto" else options.dtype


def _mapped(admission: Admission, options: Options) -> Iterator[Finding]:
    if options.weights != MAPPED:
        return
    dtype = computed_dtype(admission, options)
    where = Location("setting", flag="--weights", value=MAPPED)
    for plan in (admission.target_plan, admission.draft_plan):
        if plan is not None and plan.dtype != dtype:
            fault = f"the {plan.role}'s {plan.dtype} is to be converted to {dtype}"
            yield finding("SD705", f"--weights is mapped, and {fault}", where)


def _stored(admission: Admission, options: Options) -> Iterator[Finding]:
    if options.kv_cache_dtype == options.draft_kv_cache_dtype == "auto":
        return
    from server.memory.kv_dtype import judge_stored  # few checks ask for it

    yield from judge_stored(options, computed_dtype(admission, options))
