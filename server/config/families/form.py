"""Reading a family that is recognised and not served, as far as it can be compared with a target.

The refusal is SD312. Beside it an operator hears what is wrong with the file and with the pair: a
field that the family's files may leave out is no fault, and a rule that needs it waits on SD312.
What this server's own forward computes (SD303, SD307, SD308, SD311) is not asked of them; of
quantisation only a dtype that says so is told (SD309).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from server.config.backbone import Decoder, head_groups
from server.config.checks import Check, Reading, run_checks
from server.config.families.common import FACTS, Subject, given_names
from server.config.families.model import Claim, DraftFile, Family
from server.config.families.relations import at_most
from server.config.fields import Picked, read_record
from server.config.records import BlockDraft
from server.config.tensors import Tensors
from server.findings import Finding


class Form(NamedTuple):
    """Where the files of one family state what a draft is compared by.

    `pick` gives fields of `record` by name; `required` are those without which there is no draft
    of this family (SD105 when missing). `record` adds the family's own fields to those of a block
    drafter, so that their types and ranges are told. `checks` are other rules of the family.
    """

    pick: Callable[[DraftFile], dict[str, Picked]]
    record: type[BlockDraft] = BlockDraft
    required: tuple[str, ...] = ()
    checks: tuple[Check[Subject], ...] = ()


def unserved(
    family: str,
    schema_id: str,
    claim: Callable[[DraftFile], Claim],
    form: Form,
    tensors: Tensors | None = None,
) -> Family:
    """A family that is refused by its name (SD312), and judged as far as `form` reads it."""

    def read(file: DraftFile) -> Reading[BlockDraft]:
        return _judge(file, form, form.pick(file) | given_names(family, schema_id))

    return Family(family, schema_id, served=False, claim=claim, read=read, tensors=tensors)


def _judge(file: DraftFile, form: Form, picked: dict[str, Picked]) -> Reading[BlockDraft]:
    fields = form.record.model_fields
    open_fields = [name for name, field in fields.items() if field.is_required()]
    waits = {name: "SD312" for name in open_fields if name not in form.required}
    reading: Reading[BlockDraft] = read_record(form.record, picked, file.source, waits)
    subject = Subject(file, reading)
    found = run_checks((*FACTS, *_CHECKS, *form.checks), subject, reading.unresolved)
    return replace(reading, outcome=reading.outcome + found)


def _heads(subject: Subject) -> Iterator[Finding]:
    return head_groups(Decoder(subject.file.raw, subject.reading))


_CHECKS: tuple[Check[Subject], ...] = (
    at_most("draft_vocab_size", "vocab_size"),
    Check("SD119", ("num_attention_heads", "num_key_value_heads"), _heads),
)
