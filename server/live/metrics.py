"""The figures of a boot as Prometheus reads them.

The format is https://prometheus.io/docs/instrumenting/exposition_formats/ (text, 0.0.4).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from server import __version__
from server.live.state import State
from server.report import MemoryFacts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_Sample = tuple[dict[str, str], int | float]


def metrics_text(state: State) -> str:
    """Every figure that is known by now; one that is not known yet is left out."""
    return "".join(_lines(state))


def _lines(state: State) -> Iterator[str]:
    yield from _gauge("info", "the version of this server", [({"version": __version__}, 1)])
    yield from _gauge("ready", "1 once models and KV pool are held", [({}, int(state.ready))])
    yield from _gauge("phase", "the phase that the boot is in", [({"phase": state.phase}, 1)])
    report = state.report
    spent_ms: defaultdict[str, float] = defaultdict(float)
    for phase in report.phases:
        spent_ms[phase.name] += phase.ms
    spent = [({"phase": name}, round(ms / 1000, 6)) for name, ms in spent_ms.items()]
    yield from _gauge("phase_seconds", "how long each phase took that has ended", spent)
    loads = state.loads
    done = [({"role": load.role}, load.done_bytes) for load in loads]
    total = [({"role": load.role}, load.total_bytes) for load in loads]
    yield from _gauge("load_bytes", "bytes of weights that are in their place", done)
    yield from _gauge("load_total_bytes", "bytes of weights that are to be read", total)
    if report.memory is not None:
        yield from _memory(report.memory)


def _memory(memory: MemoryFacts) -> Iterator[str]:
    yield from _gauge("memory_total_bytes", "memory of the device", [({}, memory.total_bytes)])
    yield from _gauge("memory_limit_bytes", "what may be used of it", [({}, memory.limit_bytes)])
    billed = [({"line": line.line}, line.billed_bytes) for line in memory.ledger]
    measured = [
        ({"line": line.line}, line.measured_bytes)
        for line in memory.ledger
        if line.measured_bytes is not None
    ]
    yield from _gauge("ledger_billed_bytes", "each line of the ledger as billed", billed)
    yield from _gauge("ledger_measured_bytes", "each line of the ledger as measured", measured)
    if memory.kv is not None:
        tokens = memory.kv.usable_tokens
        yield from _gauge("kv_usable_tokens", "tokens that the KV pool holds", [({}, tokens)])


def _gauge(name: str, told: str, samples: Iterable[_Sample]) -> Iterator[str]:
    """One metric with its samples; nothing without any."""
    head = f"# HELP draftgate_{name} {told}\n# TYPE draftgate_{name} gauge\n"
    for labels, value in samples:
        listed = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{head}draftgate_{name}{f'{{{listed}}}' if listed else ''} {value}\n"
        head = ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
