"""What settings demand of each other, and of who started this process."""

import os
from collections.abc import Iterator, Mapping
from itertools import combinations

from server.cli_settle import Settled
from server.config.rules import finding
from server.findings import Finding, Location
from server.flags import BY_FIELD
from server.options import MAPPED
from server.render.escape import word
from server.seats import read_seat

_NEED_DRAFT = ("spec_method", "num_speculative_tokens", "draft_kv_cache_dtype")
_NEED_PLAN = ("assume_gpu", "assume_memory", "predict")
_FILES = ("report_html", "report_file", "junit_file", "termination_log")


def demands(settled: Settled, boots: bool) -> Iterator[Finding]:
    """A boot needs --target; some flags need another one, or exclude it."""
    if boots and "target" not in settled.values and not settled.refused("target"):
        place = Location("flag", flag="--target", has_value=False)
        fix = "--target NAME|PATH, for example --target Qwen3-8B; --help lists the flags"
        yield finding("SD704", "--target is not given", place, fix=fix)
    yield from _at_odds(settled)
    yield from _outputs_at_odds(settled)
    if not settled.values.get("plan"):
        for name in filter(settled.given.get, _NEED_PLAN):
            given = settled.given[name]
            message = f"{given.spelling} is given, --plan is not"
            yield finding("SD708", message, given.location)
    if "draft" in settled.values or settled.refused("draft"):
        return
    for name in filter(settled.given.get, _NEED_DRAFT):
        given = settled.given[name]
        if settled.values[name] != "auto":
            message = f"{given.spelling} is {word(given.text or '')}, --draft is not given"
            yield finding("SD701", message, given.location)


def _at_odds(settled: Settled) -> Iterator[Finding]:
    """SD705: two settings that exclude each other."""

    def has(name: str, start: str = "") -> bool:
        return name in settled.given and str(settled.values[name]).startswith(start)

    if has("weights", MAPPED) and has("device", "cuda"):
        yield _exclude(settled, "weights", "device")
    if settled.values.get("plan") and settled.values.get("check"):
        yield _exclude(settled, "check", "plan")
    if settled.values.get("plan") and has("assume_gpu") and has("device", "cpu"):
        yield _exclude(settled, "assume_gpu", "device")
    ranks = "tensor_parallel_size"
    if settled.values.get(ranks, 1) == 1:
        return
    if has("weights", MAPPED):
        fix = "--weights private: a rank reads parts of the files, and copies them"
        yield _exclude(settled, ranks, "weights", fix)
    if has("device", "cuda:"):
        fix = "--device cuda; CUDA_VISIBLE_DEVICES says which devices the ranks have"
        yield _exclude(settled, ranks, "device", fix)


def _exclude(settled: Settled, one: str, other: str, fix: str | None = None) -> Finding:
    sides = settled.given[one], settled.given[other]
    message = ", and ".join(f"{side.spelling} is {word(side.text or '')}" for side in sides)
    if all(side.flag.is_switch for side in sides):
        message = f"{sides[0].spelling} and {sides[1].spelling} are both given"
    return finding("SD705", message, *(side.location for side in sides), fix=fix)


def _outputs_at_odds(settled: Settled) -> Iterator[Finding]:
    """SD705: --concise is a form of text; two reports in one file are one report."""
    form, concise = settled.given.get("output_format"), settled.given.get("concise")
    if form and concise and settled.values["concise"] and settled.values["output_format"] != "text":
        message = f"{concise.spelling} is a form of text, and {form.spelling} is {form.text}"
        yield finding("SD705", message, concise.location, form.location)
    for one, other in combinations(filter(settled.values.get, _FILES), 2):
        if _one_file(settled.values[one], settled.values[other]):
            first, second = settled.given[one], settled.given[other]
            message = f"{first.spelling} and {second.spelling} are both {word(first.text or '')}"
            yield finding("SD705", message, first.location, second.location)


def _one_file(one: object, other: object) -> bool:
    """True for two paths that lead to one file, also through links."""
    try:
        return one == other or os.path.realpath(str(one)) == os.path.realpath(str(other))
    except OSError:  # the folder that this process stands in is gone
        return False


def started_elsewhere(settled: Settled, environ: Mapping[str, str]) -> Iterator[Finding]:
    """SD709: another program started this process as a rank, and says something else."""
    name = "tensor_parallel_size"
    if "WORLD_SIZE" not in environ or settled.refused(name):
        return
    given = settled.given.get(name)
    try:
        read_seat(environ, int(str(settled.values[name])) if given else 1)
    except ValueError as error:
        where = Location("flag", flag=BY_FIELD[name].name, value=given.text if given else 1)
        yield finding("SD709", str(error), where)
