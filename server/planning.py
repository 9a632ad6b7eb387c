"""`--plan`: the gate and the ledger without loading a weight, for devices that need not be there.

Each device is judged as a boot's first look at the memory judges it, with the activation peak
predicted where torch can be imported. What only a boot can measure stands as 0, and that is told.
"""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from server.admission import Admission
from server.cards import CARDS
from server.findings import Outcome, outcome_of
from server.log import Log, Refused
from server.memory.device import open_device, usable_torch
from server.memory.facts import DeviceFacts, DeviceKind, Machine, find_device
from server.memory.gates import Expected, GateResult, gate_a
from server.memory.shape import RunShape, resolve_shape
from server.memory.units import bytes_text
from server.options import Options
from server.placing import Placed, largest_step, on_device
from server.report import NOT_TOUCHED, MemoryFacts, PlanAnswer, PlanFacts
from server.seats import Seat
from server.weights.parts import Share

if TYPE_CHECKING:
    from server.memory.profile import PhasePeak

_RUNTIME = "runtime: a boot measures it; here it stands as 0, so a boot may have fewer KV blocks"
_NVML = "total: NVML's; CUDA's own, which a boot goes by, is 0.4 to 0.9 GiB smaller on usual cards"

# A step is predicted request by request, about 10 ms for each.
_MOST_REQUESTS = 1024


def make_plan(admission: Admission, options: Options, log: Log) -> None:
    """Judge every device that is asked for. Raises Refused when one of them has no room."""
    ranks = options.tensor_parallel_size
    # The last rank has the largest part, where parts differ.
    seat = Seat(rank=ranks - 1, world=ranks, sharers=ranks)
    devices = _assumed(options) or (_at_hand(options, seat, log),)
    judge = Judge(_why_no_prediction(options, log))
    places = [on_device(facts, admission, options, log, seat) for facts in devices]
    answers = []
    for placed in places:
        decided = judge.decide(placed)
        log.tell(decided.outcome)
        if decided.memory is not None:
            memory = _with_notes(decided.memory, placed, judge)
            fits = decided.plan is not None
            answers.append(PlanAnswer(memory, fits, decided.longest_tokens))
    log.report.memory = answers[0].memory if len(answers) == 1 else None
    smallest = _smallest(replace(places[0], options=options), judge)
    log.report.plan = PlanFacts(tuple(answers), smallest, judge.why_not is None)
    if log.report.refused:
        raise Refused


class Judge:
    """Judges devices; the largest step's peak is predicted once per kind of device.

    `why_not` says why nothing is predicted; the peak then stands as 0. `known` holds the peaks,
    and `part` says where they are those of a smaller step, a lower bound.
    """

    def __init__(self, why_not: str | None) -> None:
        """Nothing is predicted yet."""
        self.why_not = why_not
        self.part = ""
        self.known: dict[DeviceKind, tuple[PhasePeak, ...]] = {}

    def decide(self, placed: Placed) -> GateResult:
        """What a boot's first look at the memory says, given the peak; SD504 without room."""
        outcome = largest_step(placed)
        if outcome.refused:
            alone = gate_a(placed.facts, placed.need, placed.options)
            return alone if alone.outcome.refused else GateResult(None, None, outcome)
        shape = resolve_shape(placed.options, placed.facts, placed.admission.draft)
        if self.why_not is None:
            outcome = self._predict(placed, shape)
        peaks = self.known.get(placed.facts.kind, ())
        activation_bytes = max((peak.peak_bytes for peak in peaks), default=0)
        expected = Expected(activation_bytes, shape.max_num_seqs)
        decided = gate_a(placed.facts, placed.need, placed.options, expected)
        return replace(decided, outcome=outcome + decided.outcome)

    def _predict(self, placed: Placed, shape: RunShape) -> Outcome:
        from server.memory.predict import Pair, predict
        from server.memory.profile import Workload, step_shape

        facts, admission = placed.facts, placed.admission
        step = step_shape(shape, placed.options.max_model_len or placed.need.limit_tokens)
        if facts.kind in self.known:
            return Outcome()
        if step.requests > _MOST_REQUESTS and not placed.options.predict:
            step = step.at_most(_MOST_REQUESTS)
            self.part = f" for {_MOST_REQUESTS} of the requests in a step (for all: --predict)"
        pair = Pair(admission.target, admission.draft, Share(placed.seat.rank, placed.seat.world))
        work = Workload(placed.need.layout, step)
        self.known[facts.kind] = predict(facts, pair, work, placed.dtype)
        return outcome_of("SD504", ())


def _assumed(options: Options) -> tuple[DeviceFacts, ...]:
    """The devices that are only named, in the order of the flags."""
    kind = DeviceKind.CPU if options.device == "cpu" else DeviceKind.CUDA
    named = [(name, CARDS[name]) for name in options.assume_gpu]
    sizes = [(bytes_text(size), size) for size in options.assume_memory]
    return tuple(_device(kind, name, total) for name, total in dict.fromkeys(named + sizes))


def _device(kind: DeviceKind, name: str, total_bytes: int) -> DeviceFacts:
    reason = "assumed, not looked at"
    return DeviceFacts(kind, f"{name}, assumed", reason, total_bytes=total_bytes, exact=True)


def _at_hand(options: Options, seat: Seat, log: Log) -> DeviceFacts:
    """The device that a boot would take. It is opened only where nothing else tells its size."""
    machine = Machine(sharers=seat.sharers)
    facts = log.obtain(*find_device(options.device, os.environ, machine))
    if facts.total_bytes is not None:
        return facts
    source = log.obtain(*open_device(facts, machine))
    log.report.not_done.remove(NOT_TOUCHED)
    return source.facts


def _why_no_prediction(options: Options, log: Log) -> str | None:
    """None where the peak can be predicted. Raises Refused where it must be and cannot."""
    if options.predict is False:
        return "--no-predict"
    torch, outcome = usable_torch()
    if torch is not None:
        return None
    if options.predict:
        log.require(outcome)
    return outcome.findings[0].message


def _with_notes(memory: MemoryFacts, placed: Placed, judge: Judge) -> MemoryFacts:
    """The ledger's remarks, with what is predicted and what is not known."""
    peaks = judge.known.get(placed.facts.kind, ())
    told = ", ".join(f"{peak.phase} {bytes_text(peak.peak_bytes)}" for peak in peaks)
    activation = f"activation: predicted{judge.part}, the larger of {told}"
    if not peaks:
        why_not = judge.why_not or "there is no room without it"
        activation = f"activation: not predicted ({why_not}); it stands as 0, a lower bound"
    by_nvml = placed.facts.kind is DeviceKind.CUDA and not placed.facts.exact
    world = placed.seat.world
    ranks = f"{world} ranks: all figures are those of one, on a device of its own such as this one"
    more = (*((_NVML,) if by_nvml else ()), *((ranks,) if world > 1 else ()))
    notes = (*memory.notes, activation, _RUNTIME, *more)
    return memory._replace(notes=notes)


def _smallest(placed: Placed, judge: Judge) -> str | None:
    """The smallest GPU of the table on which the pair fits, under the same settings."""
    for name, total_bytes in CARDS.items():
        facts = _device(DeviceKind.CUDA, name, total_bytes)
        if judge.decide(replace(placed, facts=facts)).plan is not None:
            return name
    return None
