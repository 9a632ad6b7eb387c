"""The boot: one visible list of phases. The process around it: `server/process.py`."""

import gc
from typing import TYPE_CHECKING

from server import gate, outputs, pairing
from server.live.life import Life
from server.log import Log, Refused
from server.options import Options
from server.seats import ALONE, Seat

if TYPE_CHECKING:
    from server.admission import Admission
    from server.ending import Council
    from server.placing import Placed
    from server.serve import Pooled


def boot(
    options: Options,
    log: Log,
    life: Life | None = None,
    seat: Seat = ALONE,
    council: "Council | None" = None,
) -> object | None:
    """Run every phase in order; what comes back holds the models and the pool.

    None when nothing is to be loaded (--check, --plan). Where `seat` is to start ranks, the
    pair and its device come back instead. Raises Refused when a phase refuses. `life` tells
    others; without one nobody is told.
    """
    life = life or Life(log, {})
    with log.phase("draft config"):
        found = gate.read_draft_config(options, log)
    with log.phase("servable"):
        servable = gate.refuse_unservable(found, log)
    if seat.speaks:
        outputs.refuse_unwritable(options, log)
    with log.phase("target config"):
        pair = pairing.read_target_config(servable, log)
    if servable.ends_with_configs:
        raise Refused

    from server import admission  # only now is there a header to read

    with log.phase("tensor headers"):
        headers = admission.read_tensor_headers(pair, log)
    if not (options.check or servable.refused):
        admission.require_weights(headers, log)
    admitted = admission.admit(headers, log)
    if log.report.refused:
        raise Refused
    _judge_settings(admitted, options, log)
    if options.check:
        if council is not None:
            council.meet()
        return None
    if admitted is None:
        raise RuntimeError("nothing was refused, and nothing was admitted")
    # Pynvml is allowed from here on, and torch where the device or the peak asks for it.
    if options.plan:
        _plan(admitted, options, log)
        return None

    from server import placing

    if seat.tells_others:
        life.open_port(options)
    with log.phase("device"):
        placed = placing.place(admitted, options, log, seat)
    return _import_torch(placed, log) if seat.launches else prove(placed, log, life, council)


def _judge_settings(admitted: "Admission | None", options: Options, log: Log) -> None:
    from server.conversions import judge_conversions

    if admitted is not None:
        log.require(judge_conversions(admitted, options))


def _plan(admitted: "Admission", options: Options, log: Log) -> None:
    from server import planning

    with log.phase("plan"):
        planning.make_plan(admitted, options, log)


def _import_torch(placed: "Placed", log: Log) -> "Placed":
    """The launcher imports it once for all ranks, which are forked from it."""
    from server.memory.device import usable_torch

    with log.phase("import torch"):
        log.obtain(*usable_torch())
    return placed


def prove(placed: "Placed", log: Log, life: Life, council: "Council | None" = None) -> "Pooled":
    """The phases with torch. `council`: the other ranks, where there are several."""
    from server import loading, serve

    with loading.read_ahead(placed) as ahead:
        with log.phase("torch"):
            opened = serve.open_device(placed, log)
        # What torch is made of stays to the end. Looking through it takes 0.1 s, five times a boot.
        gc.freeze()
        gc.enable()  # see server/__main__.py
        life.meet(opened.placed.facts)
        if council is not None:
            with log.phase("ranks"):
                opened = serve.join(opened, council, log)
        with log.phase("load"):
            loaded = loading.load(opened, ahead, log)
    with log.phase("profile", announce=True):
        profiled = serve.profile(loaded, log)
    with log.phase("KV pool", announce=True):
        pooled = serve.allocate(profiled, log)
    with log.phase("self-test", announce=True):
        proven = serve.self_test(pooled, log)
    with log.phase("ledger", announce=True):
        return serve.reconcile(proven, log, council)
