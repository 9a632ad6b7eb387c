"""Settles each flag: reads its value from the command line or its variable, and tells faults."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from server.cli_argv import Given, near_variable, nearest
from server.cli_values import BadValue, Value
from server.config.rules import RULES, finding
from server.findings import Finding, Location
from server.flags import BY_FIELD, BY_VARIABLE, ENV_PREFIX, FLAGS, OTHER_VARIABLES, Flag
from server.options import MAPPED
from server.render.escape import word

_NEED_DRAFT = ("spec_method", "num_speculative_tokens", "draft_kv_cache_dtype")
_FILES = ("report_html", "report_file", "junit_file", "termination_log")
_NEED_PLAN = ("assume_gpu", "assume_memory", "predict")
_SERVICE_LINK = re.compile(r"SERVER_(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")
_SERVICE_PORT = re.compile(r"(tcp|udp|sctp)://")


class Settled:
    """The values so far and where they were given, by field, and the faults found."""

    def __init__(self) -> None:
        """Nothing is settled yet."""
        self.values: dict[str, Value | tuple[Value, ...]] = {}
        self.given: dict[str, Given] = {}
        self.faults: list[Finding] = []


def settle(typed: Sequence[Given], environ: Mapping[str, str]) -> Settled:
    """Each flag's value: from the command line, else from its variable."""
    settled = Settled()
    for flag in FLAGS:
        places = [given for given in typed if given.flag is flag]
        if not places and flag.env and _is_given(flag.variable, environ):
            places = [Given(flag, flag.variable, environ[flag.variable], from_env=True)]
        _settle_flag(flag, places, settled)
    return settled


def _is_given(variable: str, environ: Mapping[str, str]) -> bool:
    """True for a variable that somebody set, other than Kubernetes."""
    return variable in environ and not _is_service(variable, environ[variable])


def _is_service(variable: str, value: str) -> bool:
    """True for what Kubernetes sets in every pod beside a Service that is called "server"."""
    if variable == "SERVER_PORT":
        return _SERVICE_PORT.match(value) is not None
    return _SERVICE_LINK.fullmatch(variable) is not None


def _settle_flag(flag: Flag, places: Sequence[Given], settled: Settled) -> None:
    """Read one flag at each place where it is given.

    Two different values are a fault, except of a flag that repeats: it keeps all, in order.
    """
    first: Given | None = None
    for given in places:
        try:
            value = _read(given)
        except BadValue as error:
            settled.faults.append(_bad_value(given, str(error)))
            continue
        if flag.repeats:
            kept = settled.values.get(flag.field, ())
            settled.values[flag.field] = (*(kept if isinstance(kept, tuple) else ()), value)
            settled.given.setdefault(flag.field, given)
        elif first is None:
            first = given
            settled.values[flag.field], settled.given[flag.field] = value, given
        elif value != settled.values[flag.field]:
            settled.faults.append(_conflict(first, given))


def _read(given: Given) -> Value:
    """The value of one flag at one place. Raises BadValue."""
    if given.text is None:
        raise BadValue("has no value")
    if not given.text.strip():
        raise BadValue("is empty")
    return given.flag.read(given.text)


def _bad_value(given: Given, problem: str) -> Finding:
    """SD704 or SD706: the text that was given is no value of the flag."""
    missing = given.text is None or not given.text.strip()
    message = f"{given.spelling} {problem}"
    if not missing:
        message = f"{given.spelling} is {word(given.text or '')}, {problem}"
    if given.from_env:
        fix = f"{given.spelling}={given.flag.example}, or unset it"
        return finding("SD706", message, given.location, fix=fix)
    fix = f"{given.flag.name} {given.flag.example}, for example; it takes {given.flag.metavar}"
    return finding("SD704", message, given.location, fix=fix)


def _conflict(first: Given, second: Given) -> Finding:
    """SD705: one setting, two values."""
    if first.flag.is_switch:
        message = f"{first.spelling} and {second.spelling} are both given"
        return finding("SD705", message, first.location, second.location)
    sides = " and ".join(f"{g.spelling} is {word(g.text or '')}" for g in (first, second))
    return finding("SD705", f"{sides}, for one setting", first.location, second.location)


def demands(settled: Settled, boots: bool) -> Iterator[Finding]:
    """A boot needs --target; a flag about drafting needs --draft."""
    refused = {place.flag for fault in settled.faults for place in fault.locations}
    if boots and "target" not in settled.values and not _named("target", refused):
        place = Location("flag", flag="--target", has_value=False)
        fix = "--target NAME|PATH, for example --target Qwen3-8B"
        yield finding("SD704", "--target is not given", place, fix=fix)
    yield from _mapped_on_cuda(settled)
    yield from _plan_demands(settled)
    yield from _outputs_at_odds(settled)
    yield from _with_ranks(settled)
    if "draft" in settled.values or _named("draft", refused):
        return
    for name in _NEED_DRAFT:
        given = settled.given.get(name)
        if given is not None and settled.values[name] != "auto":
            message = f"{given.spelling} is {word(given.text or '')}, --draft is not given"
            yield finding("SD701", message, given.location)


def _mapped_on_cuda(settled: Settled) -> Iterator[Finding]:
    weights, device = settled.given.get("weights"), settled.given.get("device")
    if weights is None or device is None or settled.values.get("weights") != MAPPED:
        return
    if str(settled.values.get("device")).startswith("cuda"):
        message = f"{weights.spelling} is mapped, and {device.spelling} is {device.text}"
        yield finding("SD705", message, weights.location, device.location)


def _plan_demands(settled: Settled) -> Iterator[Finding]:
    """SD708: a flag of --plan without it. SD705: --plan beside what leaves it no answer."""
    plan = settled.given.get("plan")
    if plan is None or not settled.values["plan"]:
        for name in _NEED_PLAN:
            if given := settled.given.get(name):
                message = f"{given.spelling} is given, --plan is not"
                yield finding("SD708", message, given.location)
        return
    check, gpu, device = (settled.given.get(name) for name in ("check", "assume_gpu", "device"))
    if check is not None and settled.values["check"]:
        message = f"{check.spelling} and {plan.spelling} are both given"
        yield finding("SD705", message, check.location, plan.location)
    if gpu is not None and device is not None and settled.values["device"] == "cpu":
        message = f"{gpu.spelling} is {word(gpu.text or '')}, and {device.spelling} is cpu"
        yield finding("SD705", message, gpu.location, device.location)


def _outputs_at_odds(settled: Settled) -> Iterator[Finding]:
    """--concise is a form of text; two reports in one file are one report."""
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


def _with_ranks(settled: Settled) -> Iterator[Finding]:
    """SD705: several ranks, and a setting that only one can have."""
    ranks = settled.given.get("tensor_parallel_size")
    if ranks is None or settled.values["tensor_parallel_size"] == 1:
        return
    for name, one, fix in (
        ("weights", MAPPED, "--weights private: a rank reads parts of the files, and copies them"),
        (
            "device",
            "cuda:",
            "--device cuda; CUDA_VISIBLE_DEVICES says which devices the ranks have",
        ),
    ):
        given = settled.given.get(name)
        if given is not None and str(settled.values[name]).startswith(one):
            message = f"{ranks.spelling} is {ranks.text}, and {given.spelling} is {given.text}"
            yield finding("SD705", message, ranks.location, given.location, fix=fix)


def started_elsewhere(settled: Settled, environ: Mapping[str, str]) -> Iterator[Finding]:
    """SD709: another program started this process as a rank, and says something else."""
    name = "tensor_parallel_size"
    refused = {place.flag for fault in settled.faults for place in fault.locations}
    if "WORLD_SIZE" not in environ or _named(name, refused):
        return
    from server.seats import read_seat  # few boots are a rank of others

    given = settled.given.get(name)
    try:
        read_seat(environ, int(str(settled.values[name])) if given else 1)
    except ValueError as error:
        where = Location("flag", flag=BY_FIELD[name].name, value=given.text if given else 1)
        yield finding("SD709", str(error), where)


def _named(name: str, refused: Iterable[str | None]) -> bool:
    """True when a finding already tells what is wrong with this flag's value."""
    flag = BY_FIELD[name]
    return any(spelling in refused for spelling in (*flag.spellings, flag.variable))


def unknown_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """SD604 for each SERVER_* variable that nothing reads. Its value may be a secret."""
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or name in BY_VARIABLE or name in OTHER_VARIABLES:
            continue
        if _is_service(name, environ[name]):
            continue
        near = near_variable(name)
        fix = f"did you mean {near}? else unset it" if near else "unset it"
        place = Location("env", flag=name, source=f"env {name}", has_value=False)
        message = f"{word(name)} is not a variable of this server"
        yield finding("SD604", message, place, fix=fix)


def rule_id(text: str) -> str | None:
    """The id of the rule that `text` names, by id (any case) or by kebab name."""
    named = {rule.name: rule.id for rule in RULES.values()}
    return text.upper() if text.upper() in RULES else named.get(text.lower())


def no_rule(given: Given) -> Finding:
    """SD704: --explain names no rule."""
    text = given.text or ""
    near = nearest(text.upper(), RULES) or nearest(text.lower(), (r.name for r in RULES.values()))
    fix = f"did you mean {near}?" if near else "python -m server --list-rules lists them"
    return finding("SD704", f"--explain is {word(text)}, not a rule", given.location, fix=fix)
