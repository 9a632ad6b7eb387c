"""What type the KV pool stores, of target and draft each by its own flag.

The draft's is never inherited: fp8 for the target says nothing about the draft
(vllm-project/vllm pull request 32165).
"""

from collections.abc import Iterator

from server.config.geometry import DTYPE_BYTES, KV_DTYPE_BYTES
from server.config.rules import finding
from server.findings import Finding, Location
from server.memory.kv_layout import KvLayout
from server.memory.source import MemorySource
from server.options import Options
from server.report import SettingFacts

TARGET, DRAFT = "kv_cache_dtype", "draft_kv_cache_dtype"


def stored_layout(layout: KvLayout, options: Options, dtype: str) -> KvLayout:
    """The layout with the types that are stored; `auto` is `dtype`, which is computed in."""
    target, draft = (_asked(options, name) or dtype for name in (TARGET, DRAFT))
    return layout.stored(target, draft)


def kv_settings(layout: KvLayout, options: Options) -> dict[str, SettingFacts]:
    """Both types as they are in force; without a draft only the target's."""
    parts = ((TARGET, layout.target), (DRAFT, layout.draft))
    return {name: SettingFacts(part.dtype, _source(options, name)) for name, part in parts if part}


def judge_stored(options: Options, dtype: str) -> Iterator[Finding]:
    """SD705: a type that is wider than what is computed holds nothing more, and costs memory."""
    for name in (TARGET, DRAFT):
        asked = _asked(options, name)
        if asked and KV_DTYPE_BYTES[asked] > DTYPE_BYTES[dtype]:
            why = f"the dtype is {dtype}, which is narrower"
            yield _refused(name, asked, why, f", or compute in it too (--dtype {asked})")


def judge_converted(layout: KvLayout, source: MemorySource) -> Iterator[Finding]:
    """SD705: a type that torch cannot convert to and from on the opened device."""
    from server.model.kv import converts, torch_dtype

    for name, part in ((TARGET, layout.target), (DRAFT, layout.draft)):
        if part and part.dtype and not converts(torch_dtype(part.dtype), source.torch_device):
            why = f"torch cannot convert to it on {source.facts.label}"
            yield _refused(name, part.dtype, why)


def _refused(name: str, asked: str, why: str, instead: str = "") -> Finding:
    flag = f"--{name.replace('_', '-')}"
    where = Location("setting", flag=flag, value=asked)
    fix = f"leave {flag} out{instead}"
    return finding("SD705", f"{flag} is {asked}, and {why}", where, fix=fix)


def _asked(options: Options, name: str) -> str | None:
    value: str = getattr(options, name)
    return None if value == "auto" else value


def _source(options: Options, name: str) -> str:
    return options.source(name) if _asked(options, name) else "what is computed in"
