"""Faults that people reported, as files: each with the rule that refuses it."""

from typing import NamedTuple

from server.weights.header import HEADER_LIMIT_BYTES
from tests.weights.breaks import (
    SINGLE,
    dangling,
    empty,
    fifo,
    length,
    links,
    loop,
    metadata,
    one_file_twice,
    pickles,
    rename,
    single,
    single_and_index,
    stale,
    stray,
    trailing_index,
    truncate,
    twice,
    unlink,
)
from tests.weights.make import INDEX
from tests.weights.sparse import (
    EMBED,
    FIRST,
    HEAD,
    K_PROJ,
    Q_PROJ,
    SECOND,
    Break,
    both,
    config,
    content,
    drop,
    entry,
    nothing,
    point,
    resize,
    store,
)

_PLAIN = Q_PROJ.removesuffix(".weight")
_LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3957900840\n"


class Row(NamedTuple):
    """One fault: what breaks the checkpoint, and what the refusal says.

    `reports` are numbers of `tests/weights/reports.py`.
    `rules`: of the errors; the first one's finding names `file` and holds each of `says`.
    `neighbour` is the nearest change that is no fault.
    """

    reports: tuple[int, ...]
    fault: str
    breaks: Break
    code: int
    rules: tuple[str, ...]
    file: str
    says: tuple[str, ...]
    neighbour: Break = nothing


def _parts(weight: Break, **parts: tuple[str, list[int]]) -> Break:
    """A quantised projection: what becomes of its weight, and the tensors beside it."""
    names = {f"{_PLAIN}.{name}": part for name, part in parts.items()}
    return both(weight, *(store(name, *part) for name, part in names.items()))


_GONE = drop(Q_PROJ, FIRST)
_FP8, _INT8 = store(Q_PROJ, "F8_E4M3", [384, 256]), store(Q_PROJ, "I8", [384, 256])
_SCALE = ("F32", [1])
_PACKED = ("I32", [32, 384])
_QUANTISED: tuple[tuple[Break, tuple[str, ...], str], ...] = (
    (_parts(_GONE, qweight=_PACKED, qzeros=_SCALE, scales=_SCALE, g_idx=("I32", [256])),
     ("SD403", "SD402"), "GPTQ"),
    (_parts(_GONE, qweight=_PACKED, qzeros=_SCALE, scales=_SCALE), ("SD403", "SD402"), "AWQ"),
    (_parts(_FP8, weight_scale_inv=_SCALE), ("SD403", "SD404"), "FP8 weights scaled by the block"),
    (_parts(_FP8, weight_scale=_SCALE, input_scale=_SCALE), ("SD403", "SD404"), "FP8 or INT8"),
    (_parts(_INT8, weight_scale=_SCALE), ("SD403", "SD404"), "FP8 or INT8"),
    (_parts(_INT8, SCB=_SCALE), ("SD403", "SD404"), "bitsandbytes 8-bit"),
    (_parts(store(Q_PROJ, "U8", [49152, 1]),
            **{"weight.absmax": _SCALE, "weight.quant_state.bitsandbytes__nf4": ("U8", [99])}),
     ("SD403", "SD401", "SD404"), "bitsandbytes 4-bit"),
    (_parts(_GONE, weight_packed=_PACKED, weight_scale=_SCALE, weight_shape=("I32", [2])),
     ("SD403", "SD402"), "packed by compressed-tensors"),
    (_parts(_GONE, weight_packed=_PACKED, weight_scale=_SCALE, weight_global_scale=_SCALE),
     ("SD403", "SD402"), "NVFP4 weights as compressed-tensors"),
    (_parts(store(Q_PROJ, "U8", [384, 128]), weight_scale=_SCALE, weight_scale_2=_SCALE),
     ("SD403", "SD401", "SD404"), "NVFP4 weights as ModelOpt"),
    (_parts(_GONE, gate_up_proj_blocks=_PACKED, gate_up_proj_scales=_SCALE),
     ("SD403", "SD402"), "MXFP4"),
    (_parts(_GONE, q_weight=_PACKED, q_scale=_SCALE), ("SD403", "SD402"), "EXL2"),
    (_parts(_GONE, trellis=_PACKED, suh=_SCALE, svh=_SCALE), ("SD403", "SD402"), "EXL3"),
    (_parts(store(Q_PROJ, "I32", [384, 32]), scales=_SCALE, biases=_SCALE),
     ("SD403", "SD401", "SD404"), "MLX"),
)  # fmt: skip

FILES: tuple[Row, ...] = (
    Row((1, 2), "a shard is missing", unlink(SECOND), 66, ("SD406",), INDEX, (SECOND,)),
    Row((3,), "an empty folder", empty, 66, ("SD405",), "model", (SINGLE,), single),
    Row((7, 36), "shards of another save under other names",
        both(rename(FIRST, "model.safetensors-00001-of-00002.safetensors"),
             rename(SECOND, "model.safetensors-00002-of-00002.safetensors")),
        66, ("SD406",), INDEX, ("2 not there", FIRST, "is there under a similar name")),
    Row((8, 9), "truncated by a byte", resize(FIRST, -1), 65, ("SD408",), FIRST,
        ("truncated by 1",)),
    Row((8, 9), "two shards truncated", both(resize(FIRST, -9), resize(SECOND, -7)), 65,
        ("SD408",), FIRST, ("truncated by 9",)),
    Row((8,), "truncated inside of the header", truncate(FIRST, 300), 65,
        ("SD408",), FIRST, ("its header alone needs",)),
    Row((10,), "trailing bytes", resize(SECOND, 16), 65, ("SD408",), SECOND, ("longer", "16")),
    Row((11,), "a Git LFS pointer", content(FIRST, _LFS), 65, ("SD407",), FIRST,
        ("Git LFS pointer", "3957900840")),
    Row((11,), "an HTML page", content(FIRST, b"<!DOCTYPE html>"), 65, ("SD407",), FIRST,
        ("HTML",)),
    Row((11,), "a renamed pickle", content(FIRST, b"PK\x03\x04" + bytes(99)), 65, ("SD407",),
        FIRST, ("zip archive",)),
    Row((12,), "an empty file", content(FIRST, b""), 65, ("SD408",), FIRST, ("empty (0 bytes)",)),
    Row((12,), "a file of zeros", content(FIRST, bytes(4096)), 65, ("SD407",), FIRST,
        ("zero bytes",)),
    Row((13,), "a header above the limit", length(HEADER_LIMIT_BYTES + 1), 65, ("SD407",), FIRST,
        (str(HEADER_LIMIT_BYTES + 1), f"the limit is {HEADER_LIMIT_BYTES}")),
    Row((27,), "a single file beside an index", single_and_index, 78, ("SD411",), "model",
        (SINGLE, INDEX), stray),
    Row((29,), "a dangling link of a cache", dangling, 66, ("SD406",), SECOND,
        ("dangling link", "mount the whole cache"), links),
    Row((29,), "a link to itself", loop, 66, ("SD414",), SECOND, ("cannot be opened",), links),
    Row((30,), "a FIFO for a shard", fifo, 66, ("SD414",), SECOND, ("a FIFO",)),
    Row((), "pickles alone", both(empty, pickles("pytorch_model.bin", "x.pt")), 78,
        ("SD412",), "model", ("pytorch_model.bin",), pickles("pytorch_model.bin")),
    Row((), "a GGUF file alone", both(empty, content("m.gguf", b"GGUF")), 66, ("SD405",), "model",
        ("GGUF files: m.gguf",), content("m.gguf", b"GGUF")),
    Row((27,), "consolidated weights alone", both(empty, stray), 66, ("SD405",), "model",
        ("consolidated.safetensors",), stray),
)  # fmt: skip

INDEXES: tuple[Row, ...] = (
    Row((4,), "the index names a tensor that no shard has", point("mtp.fc.weight", SECOND), 65,
        ("SD410",), INDEX, ("mtp.fc.weight (in no shard)",)),
    Row((4,), "a shard holds a tensor that the index omits", stale("mtp.fc.weight", SECOND), 78,
        ("SD410", "SD403"), INDEX, (f"mtp.fc.weight ({SECOND})",)),
    Row((4,), "the index gives another shard", point(Q_PROJ, SECOND), 65, ("SD410",), INDEX,
        (f"{Q_PROJ} ({FIRST})",)),
    Row((5, 6), "a stale copy in another shard", stale(Q_PROJ, SECOND), 65, ("SD410",),
        INDEX, (f"{Q_PROJ} ({FIRST} and {SECOND})",)),
    Row((5,), "one file under two names", one_file_twice, 78, ("SD410", "SD402"), INDEX,
        (f"one file 2 times: {FIRST}, {SECOND}",)),
    Row((28,), "a path upwards", point(Q_PROJ, "../x.safetensors"), 65, ("SD413",), INDEX,
        ("../x.safetensors", Q_PROJ)),
    Row((28,), "an absolute path", point(Q_PROJ, "/x.safetensors"), 65, ("SD413",), INDEX,
        ("/x.safetensors", Q_PROJ)),
    Row((32,), "trailing data in the index", trailing_index, 65, ("SD409",), INDEX,
        ("Extra data",)),
    Row((32,), "a weight_map that is a list", content(INDEX, b'{"weight_map": []}'), 65,
        ("SD409",), INDEX, ("weight_map is []",)),
    Row((32,), "a file name that is a number", point(Q_PROJ, 1), 65, ("SD409",), INDEX, (Q_PROJ,)),
    Row((), "an index of pickles", point(Q_PROJ, "pytorch_model.bin"), 65, ("SD409",), INDEX,
        (Q_PROJ, "not a .safetensors file"), pickles("pytorch_model.bin")),
)  # fmt: skip

HEADERS: tuple[Row, ...] = tuple(
    Row((13, 35), fault, breaks, 65, ("SD407",), FIRST, says, neighbour)
    for fault, breaks, says, neighbour in (
        ("a hole", entry(EMBED, data_offsets=[2, 1048578]), ("a hole", EMBED), nothing),
        ("an overlap", entry(Q_PROJ, data_offsets=[0, 196608]), ("an overlap", EMBED), nothing),
        ("an end before its begin", entry(Q_PROJ, data_offsets=[9, 1]), (Q_PROJ, "[9, 1]"),
         nothing),
        ("bytes that are not the shape's", entry(Q_PROJ, shape=[384, 255]), (Q_PROJ, "255"),
         nothing),
        ("no bytes for a shape", entry(Q_PROJ, data_offsets=[0, 0]), (Q_PROJ, "given 0 bytes"),
         nothing),
        ("a shape that overflows", entry(Q_PROJ, shape=[2**62, 2**62]), (Q_PROJ,), nothing),
        ("a negative dimension", entry(Q_PROJ, shape=[-384, -256]), (Q_PROJ, "-384"), nothing),
        ("an unknown dtype", entry(Q_PROJ, dtype="BF17"), (Q_PROJ, "BF17"), nothing),
        ("a name given twice", twice, (f"/{Q_PROJ} is given more than once",), nothing),
        ("a number in the metadata", metadata({"step": 4}), ("__metadata__",),
         metadata({"step": "4"})),
        ("no JSON", content(FIRST, (2).to_bytes(8, "little") + b"{{"), ("header: line 1",),
         nothing),
    )
)  # fmt: skip

TENSORS: tuple[Row, ...] = (
    Row((14,), "untied without a head", drop(HEAD, SECOND), 78, ("SD402",), "model", (HEAD,),
        both(drop(HEAD, SECOND), config(tie_word_embeddings=True))),
    Row((16,), "missing and extra tensors",
        both(drop(K_PROJ, SECOND), store("model.layers.2.x", "BF16", [2])), 78, ("SD402", "SD403"),
        "model", (K_PROJ,)),
    Row((17,), "a vocabulary of another size", config(vocab_size=2050), 78, ("SD401",), FIRST,
        (EMBED, "[2048, 256]", "[2050, 256]", "vocab_size")),
    Row((17,), "other key/value heads", config(num_key_value_heads=3), 78, ("SD401",), FIRST,
        ("k_proj.weight", "[128, 256]", "[192, 256]", "num_key_value_heads")),
    Row((15, 17), "a tied head of another shape",
        both(config(tie_word_embeddings=True), store(HEAD, "BF16", [8, 8], SECOND)), 78, ("SD401",),
        SECOND, (HEAD,), config(tie_word_embeddings=True)),
    Row((19,), "one tensor of another float", store(Q_PROJ, "F32", [384, 256]), 78, ("SD404",),
        FIRST, ("1 F32", Q_PROJ)),
    Row((19,), "one tensor of integers", store(Q_PROJ, "I8", [384, 256]), 78, ("SD404",), FIRST,
        ("1 I8", Q_PROJ)),
    Row((35,), "a tensor without elements that nothing asks for", store("x", "BF16", [0, 4]), 78,
        ("SD403",), FIRST, ("x",)),
    *(Row((27,), f"{layout} among the weights", breaks, 78, rules, FIRST, (layout, _PLAIN))
      for breaks, rules, layout in _QUANTISED),
)  # fmt: skip

ROWS = FILES + INDEXES + HEADERS + TENSORS
