"""Other spellings of tensor names: exporters' beginnings, replaced by those of the layout."""

from collections.abc import Collection, Mapping, Sequence

from server.config.tensors import ExpectedTensor

EXPORT_PREFIX = "model."
# What stands beside `model` in an export of a whole causal model.
_HEADS = ("lm_head.", "markov_head.", "confidence_head.")


def spellings(
    names: Collection[str], layout: Sequence[ExpectedTensor], aliases: Sequence[tuple[str, str]]
) -> Mapping[str, str]:
    """The layout's name of each tensor whose name in the file is another one.

    The `model.` prefix that some draft exports put before every name, or every name but those of
    heads, is dropped only when no other name lacks it: any other mix is not an export that
    anybody makes. `aliases` are
    beginnings of names, each with the one that `layout` has. A name that is taken stays another
    tensor's.
    """
    asked = any(tensor.name.startswith(EXPORT_PREFIX) for tensor in layout)
    exported = not asked and all(name.startswith((EXPORT_PREFIX, *_HEADS)) for name in names)
    prefixes = [(EXPORT_PREFIX, "")] if exported else []
    plain: dict[str, str] = {}
    for written, known in (*prefixes, *aliases):
        taken = {plain.get(name, name) for name in names}
        for name in names:
            now = plain.get(name, name)
            new = known + now.removeprefix(written)
            if now.startswith(written) and new not in taken:
                plain[name] = new
    return plain
