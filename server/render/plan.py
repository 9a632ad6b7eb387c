"""What a plan says, as text: each device with its ledger, then which GPU is enough."""

from server.render.escape import visible
from server.render.ledger import render_memory
from server.render.style import Style
from server.render.text import count
from server.report import PlanAnswer, PlanFacts


def render_plan(plan: PlanFacts, style: Style) -> str:
    """Every answer, and the smallest GPU of the table that is enough."""
    parts = [f"{render_memory(one.memory, style)}\n  {verdict(one)}" for one in plan.answers]
    return "\n".join([*parts, smallest(plan)])


def verdict(answer: PlanAnswer) -> str:
    """Fits or not, and the longest request that does."""
    kv, longest = answer.memory.kv, answer.longest_tokens
    says = "does not fit"
    if answer.fits and kv is not None:
        says = f"fits, with requests of up to {count(kv.max_model_len, 'token')}"
    room = (
        f"the longest that fits is {count(longest, 'token')}"
        if longest
        else "no length fits these settings"
    )
    return f"{says}; {room}"


def smallest(plan: PlanFacts) -> str:
    """The smallest GPU that is enough, or that none of the table is."""
    named = plan.smallest_gpu
    told = "none that is known here" if named is None else visible(named)
    return f"smallest GPU on which it fits: {told}"
