"""The anchor layout in the speculators format, and what its proposal methods say.

sample_from_anchor has two readings where it is absent: the library's default depends on the
algorithm, and vLLM takes absence as false. The number of tokens that a block proposes decides
then. Sources: vllm-project/speculators src/speculators/models/dflash/core.py and
src/speculators/config.py, vllm-project/vllm vllm/transformers_utils/configs/speculators/algos.py.
"""

from collections.abc import Iterator

from server.config.checks import Check
from server.config.families.common import Subject, given_layout
from server.config.families.model import DraftFile, fault
from server.config.fields import Picked, pick, said
from server.config.records import AnchorLayout
from server.config.rules import finding
from server.config.values import kind, pointer, shorten
from server.findings import Finding, JsonValue, Location

_ANCHOR = "sample_from_anchor"
_CONFIG = "speculators_config"
_TOLD = 8
_AGREE = "make both say how many tokens a block was trained to propose"
_STATE = f"add {_ANCHOR} from the training configuration"


def pick_layout(file: DraftFile, block_size: Picked) -> Picked:
    """anchor-first or anchor-drop; SD304 where the file shows neither, or both."""
    anchor, tokens = said(file.top(_ANCHOR)), _tokens(file)
    proposed = _of_tokens(tokens.value, block_size.value)
    if anchor.present and not isinstance(anchor.value, bool):
        need = f"true or false is needed, found {kind(anchor.value)}"
        return given_layout(AnchorLayout.DROP, fault("SD107", file, anchor, need))
    if not anchor.present:
        return given_layout(proposed) if proposed else _unshown(file, anchor, tokens, block_size)
    layout = AnchorLayout.FIRST if anchor.value else AnchorLayout.DROP
    if proposed in (layout, None):
        return given_layout(layout)
    message = (
        f"draft {_ANCHOR} is {shorten(anchor.value)}, which is {layout}, and {tokens.name} is "
        f"{tokens.shown} with block_size {block_size.shown}, which is {proposed}"
    )
    places = (file.at(anchor), file.at(tokens))
    fault_ = finding("SD304", message, *places, *_block(file, block_size), fix=_AGREE)
    return given_layout(layout, fault_)


def _tokens(file: DraftFile) -> Picked:
    """How many tokens the first proposal method drafts."""
    methods = pick(file.raw, _CONFIG, "proposal_methods")
    where = f"{methods.pointer}/0/speculative_tokens"
    first = methods.value[0] if isinstance(methods.value, list) and methods.value else None
    return said(pick(first, "speculative_tokens")._replace(pointer=where))


def _of_tokens(tokens: JsonValue, block: JsonValue) -> AnchorLayout | None:
    if type(tokens) is not int or type(block) is not int:
        return None
    return {block: AnchorLayout.FIRST, block - 1: AnchorLayout.DROP}.get(tokens)


def _unshown(file: DraftFile, anchor: Picked, tokens: Picked, block_size: Picked) -> Picked:
    message = (
        f"draft {_ANCHOR} is missing, and {tokens.name} is {tokens.shown} with block_size "
        f"{block_size.shown}, so the anchor layout is not shown"
    )
    places = (file.at(anchor), file.at(tokens))
    fault_ = finding("SD304", message, *places, *_block(file, block_size), fix=_STATE)
    return given_layout(AnchorLayout.DROP, fault_)


def _block(file: DraftFile, block_size: Picked) -> Iterator[Location]:
    if block_size.pointer:
        yield file.at(block_size)


def _default_method(subject: Subject) -> Iterator[Finding]:
    """SD108: default_proposal_method refers to an entry of the list, as an index does."""
    file = subject.file
    named = said(pick(file.raw, _CONFIG, "default_proposal_method"))
    methods = pick(file.raw, _CONFIG, "proposal_methods")
    if not named.present or not isinstance(methods.value, list):
        return
    types = [pick(method, "proposal_type").value for method in methods.value]
    if named.value not in types:
        told = ", ".join(map(shorten, types[:_TOLD])) or "none"
        need = f"one of the proposal types is needed: {told}"
        places = [file.source.at(methods.pointer + pointer(i), m) for i, m in _listed(methods)]
        message = f"draft {named.name} is {named.shown}, {need}"
        yield finding("SD108", message, file.at(named), *places)


def _listed(methods: Picked) -> Iterator[tuple[int, JsonValue]]:
    if isinstance(methods.value, list):
        yield from enumerate(methods.value[:_TOLD])


PROPOSALS: tuple[Check[Subject], ...] = (Check("SD108", (), _default_method),)
