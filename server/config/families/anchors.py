"""The anchor layout of a block drafter that is not served, where its file shows one.

A layout is given only for what published code samples from a file of that form. Where another
layout's key stands beside it nothing is given, and rules about draft tokens wait. Sources:
sgl-project/SpecForge specforge/modeling/draft, NVIDIA/Model-Optimizer hf_dspark.py,
deepseek-ai/DeepSpec (num_anchors), vllm-project/speculators (sample_from_anchor).
"""

from server.config.backbone import differs
from server.config.families.common import given_layout
from server.config.families.model import DraftFile
from server.config.fields import Picked
from server.config.records import AnchorLayout


def shown_layout(
    file: DraftFile, layout: AnchorLayout, trainer_anchors: bool = False
) -> dict[str, Picked]:
    """The field of `layout`, or none when the file has a key of another one.

    `trainer_anchors`: a top-level num_anchors is an option of the trainer, and shows nothing.
    """
    anchors = (file.inner("num_anchors"),) if trainer_anchors else file.both("num_anchors")
    first = layout is AnchorLayout.FIRST
    mixed = [place for place in anchors if place.value is not None]
    mixed += [place for place in file.both("sample_from_anchor") if differs(place.value, first)]
    return {} if mixed else {"layout": given_layout(layout)}
