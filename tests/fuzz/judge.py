"""The whole judgement of one input through the public entry points, and what must hold of it."""

import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from server.config.draft import Draft, ensure_servable, read_draft
from server.config.pair import Asked, Pair, judge_length, judge_pair
from server.config.target import Target, read_target
from server.findings import Outcome, Verdict
from server.log import Log, Refused
from server.options import Options
from server.render.console import Console
from server.render.json import report_json
from server.render.style import Style
from server.render.text import (
    render_finding,
    render_ignored,
    render_settings,
    render_summary,
    render_verdict,
)
from server.report import DraftFacts, Report, TargetFacts
from server.startup import boot
from server.weights.files import WeightFault
from tests.fuzz.blob import Blob, unpacked
from tests.fuzz.files import Files
from tests.weights.headers import read_header

LIMIT_S = 1.0  # of processor time, since others may use the same processor
# What one judgement may add to the process, whatever the engine itself keeps. The gate alone, with
# its interpreter, is measured as a process in test_odd_inputs.py: 200 MB at most.
LIMIT_GROWTH_KIB = 150 * 1024
FOREIGN = ("torch", "numpy", "pynvml")
_STYLES = (Style(), Style(verbose=True))
_ASKED = (
    Asked(),
    Asked(max_model_len=4096, num_speculative_tokens=4, dtype="float16"),
    Asked(max_model_len=40960, num_speculative_tokens=16, dtype="bfloat16"),
    Asked(fit_length=True),
)


class Fault(Exception):
    """What must not happen, in words; `kind` is the same for the same fault."""

    def __init__(self, kind: str, detail: str = "") -> None:
        """`detail` says more, and may differ from run to run."""
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind


class Result(NamedTuple):
    """What one run found: the family shown, the verdict and the processor time."""

    family: str
    verdict: Verdict
    spent_s: float


class Harness:
    """Judges inputs one after the other; the files lie in one folder that it owns.

    With `thorough` every run renders every report and boots; else only some runs do, chosen by
    the input's own checksum, so that the same input is always judged in the same way.
    """

    def __init__(self, folder: Path, target: bytes, *, thorough: bool = False) -> None:
        """`target` is the config of the fixed target that every draft is paired with."""
        self._files = Files(folder)
        self._thorough = thorough
        fixed = self._files.write("fixed.json", target)
        self._fixed_path, self._fixed = fixed, read_target(fixed, strict=False)
        self._seen: set[str] = set()
        self.verdicts: Counter[str] = Counter()

    def run(self, data: bytes) -> Result:
        """Judge one input. Raises Fault, or whatever exception the gate lets out."""
        held_kib, peak_kib, begin_s = _held_kib(), _peak_kib(), time.process_time()
        found = self._run(unpacked(data), crc32(data))
        spent_s = time.process_time() - begin_s
        if spent_s > LIMIT_S:
            raise Fault("a run took too long", f"{spent_s:.2f} s")
        growth_kib = _peak_kib() - held_kib
        if _peak_kib() > peak_kib and growth_kib > LIMIT_GROWTH_KIB:
            raise Fault("a run took too much memory", f"{growth_kib} KiB")
        self.verdicts[f"{found.family} {found.verdict}"] += 1
        return found._replace(spent_s=spent_s)

    def _run(self, blob: Blob, chosen: int) -> Result:
        strict = chosen % 5 == 0
        path = self._files.write("draft/config.json", blob.draft)
        draft = read_draft(path, strict)
        method = ("auto", "dflash", "dspark")[chosen % 3]
        total = ensure_servable(draft, method) + draft.outcome
        _require_reason(draft, total)
        targets = [self._fixed]
        if blob.target:
            targets.append(read_target(self._files.write("target.json", blob.target), strict))
        total += self._pairs(draft, targets, _ASKED[chosen % len(_ASKED)])
        self._render(draft, targets[-1], total, every=self._thorough or chosen % 64 == 0)
        verdict = _verdict(Report(findings=list(total.findings)))
        often = 64 if blob.weights or blob.shard_index else 256
        if blob.weights:
            self._files.put_weights("draft/model.safetensors", blob.weights)
            _header(self._files.at("draft/model.safetensors"))
        if self._thorough or chosen % often == 0:
            self._boot(blob, strict)
        return Result(draft.family, verdict, 0.0)

    def _pairs(self, draft: Draft, targets: Sequence[Target], asked: Asked) -> Outcome:
        total = Outcome()
        for target in targets:
            total += target.outcome
            if target.reading is None:
                continue
            total += judge_length(target.reading, asked)
            if target.reading.record is None and not target.outcome.refused:
                raise Fault("a target is unresolved, and no error says why")
            if draft.reading is not None:
                total += judge_pair(Pair(draft.reading, target.reading, asked))
        return total

    def _render(self, draft: Draft, target: Target, total: Outcome, *, every: bool) -> None:
        new = {found.rule for found in total.findings} - self._seen
        if not new and not every:
            return
        self._seen |= new
        report = Report()
        report.draft = DraftFacts("draft", None, draft.family, draft.schema_id, None, None)
        report.draft = report.draft._replace(candidates=draft.candidates)
        report.target = TargetFacts("target", None, target.architecture)
        report.add(total)
        require_rendered(report)

    def _boot(self, blob: Blob, strict: bool) -> None:
        files = self._files
        files.put_weights("draft/model.safetensors", blob.weights)
        files.put("draft/model.safetensors.index.json", blob.shard_index)
        target = files.at("target.json") if blob.target else self._fixed_path
        options = Options(str(target), str(files.at("draft")), check=True, strict=strict)
        log = Log(Report(settings={}), Console(None, Style()))
        log.report.settings.update(files.settings)
        try:
            boot(options, log)
        except Refused:
            if not log.report.refused:
                raise Fault("a boot was refused, and no error says why") from None
        _verdict(log.report)
        require_rendered(log.report)


def require_rendered(report: Report) -> None:
    """Every rendering of `report` works; the JSON one is strict. Raises Fault."""
    for style in _STYLES:
        told = [render_finding(found, style) for found in report.findings]
        told += [render_verdict(report, style), render_summary(report, style)]
        told += [render_ignored(report, style), render_settings(report, style)]
        for text in told:
            if not text.replace("\n", "").isprintable():
                raise Fault("a text rendering holds an unprintable character", ascii(text)[:200])
    text = report_json(report)
    read = json.loads(text, parse_constant=_no_constant)
    if not text.isascii() or not isinstance(read, dict):
        raise Fault("the JSON report is not one ASCII object")
    for string in _strings(read):
        try:
            string.encode()
        except UnicodeEncodeError:
            raise Fault("the JSON report holds a lone surrogate", ascii(string)[:200]) from None


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _held_kib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def require_light() -> None:
    """Nothing heavy was imported by the gate. Raises Fault."""
    heavy = [name for name in FOREIGN if name in sys.modules]
    if heavy:
        raise Fault("the gate imported what it must not", ", ".join(heavy))


def _require_reason(draft: Draft, total: Outcome) -> None:
    resolved = draft.reading is not None and draft.reading.record is not None
    if not resolved and not total.refused:
        raise Fault("a draft is unresolved, and no error says why", draft.family)


def _verdict(report: Report) -> Verdict:
    verdict = report.verdict
    if verdict not in (Verdict.ACCEPT, Verdict.REFUSE):
        raise Fault("a verdict is neither accept nor refuse", verdict)
    return verdict


def _header(path: Path) -> None:
    try:
        header = read_header(path)
    except WeightFault:
        return
    if sum(entry.size_bytes for entry in header.tensors.values()) > os.stat(path).st_size:
        raise Fault("a header was accepted that promises more bytes than there are")


def _no_constant(name: str) -> float:
    raise Fault("the JSON report holds a number that JSON has not", name)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
