"""The numbers in the samples: deterministic, bf16, and made so that decoding means something.

Greedy decoding halves the token id until it stays at 0, because head row u repeats half of
the embedding of 2u and half of that of 2u + 1, and the layers are too small to drown it. The
mask token embeds like token 0, so that a DFlash block proposes zeros: right at the end of the
walk, wrong before. The Markov head knows the halving by the bits of the ids, with a wrong code
for every eighth token; so blocks are accepted in whole, in part and not at all.
"""

from functools import cache
from hashlib import shake_256
from struct import pack, unpack

from server.config.tensors import ExpectedTensor
from server.weights.sample_configs import HIDDEN, MARKOV_RANK, MASK, VOCAB_TOKENS

_ID_BITS = (VOCAB_TOKENS - 1).bit_length()
_LAYER_STD = 0.02
# Logits of about 8 for the next token, of about 0.7 in the root mean square for the others.
_HEAD_STD = 1 / 32
_WRONG_CODE = (8, 5)  # tokens of this remainder


def tensor_bytes(sample: str, tensor: ExpectedTensor, numel: int) -> bytes:
    """The bf16 bytes of `tensor`, row by row, `numel` elements."""
    leaf = tensor.name.split(".")[-2]
    if leaf.endswith("norm"):
        return _bf16(1.0) * numel
    if leaf == "embed_tokens":
        return _as_bf16(_embedding(), 1.0)
    if leaf == "lm_head":
        return _as_bf16(_head(), _HEAD_STD)
    if leaf == "markov_w1":
        return b"".join(_code(_coded_successor(token)) for token in range(VOCAB_TOKENS))
    if leaf == "markov_w2":
        return b"".join(_code(token) for token in range(VOCAB_TOKENS))
    if tensor.name.endswith(".bias"):
        return _bf16(0.0) * numel
    return _as_bf16(_noise(f"{sample}/{tensor.name}", numel), _LAYER_STD)


def _noise(seed: str, count: int) -> bytes:
    """`count` numbers of a normal distribution, each as one of 256 equally likely steps."""
    return shake_256(seed.encode()).digest(count)


@cache
def _embedding() -> bytes:
    rows = _noise("embed_tokens", VOCAB_TOKENS * HIDDEN)
    first = rows[:HIDDEN]
    return rows[: MASK * HIDDEN] + first + rows[(MASK + 1) * HIDDEN :]


def _head() -> bytes:
    rows, half = _embedding(), HIDDEN // 2
    parents = VOCAB_TOKENS // 2
    parts: list[bytes] = []
    for token in range(parents):
        left, right = 2 * token, 2 * token + 1
        right = left if right == MASK else right
        parts.append(rows[left * HIDDEN : left * HIDDEN + half])
        parts.append(rows[right * HIDDEN + half : (right + 1) * HIDDEN])
    # No token leads to the upper half of the ids.
    return b"".join(parts) + _noise("lm_head", (VOCAB_TOKENS - parents) * HIDDEN)


def _coded_successor(token: int) -> int:
    every, remainder = _WRONG_CODE
    return token // 2 ^ (token % every == remainder)


def _code(token: int) -> bytes:
    """The bits of `token` as +1 and -1, repeated over the rank: [MARKOV_RANK] bf16."""
    bits = [token >> (place % _ID_BITS) & 1 for place in range(MARKOV_RANK)]
    return b"".join(_PLUS if bit else _MINUS for bit in bits)


def _bf16(value: float) -> bytes:
    (bits,) = unpack("<I", pack("<f", value))
    rounded: int = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return pack("<H", rounded)


_PLUS, _MINUS = _bf16(1.0), _bf16(-1.0)


def _as_bf16(steps: bytes, std: float) -> bytes:
    """Each step (one byte) as the bf16 of its place in a normal distribution of width `std`."""
    low, high = _tables(std)
    out = bytearray(2 * len(steps))
    out[0::2] = steps.translate(low)
    out[1::2] = steps.translate(high)
    return bytes(out)


@cache
def _tables(std: float) -> tuple[bytes, bytes]:
    # Imported here: it is slow to import, and only needed when a sample is written.
    from statistics import NormalDist

    normal = NormalDist(0.0, std)
    words = b"".join(_bf16(normal.inv_cdf((step + 0.5) / 256)) for step in range(256))
    return words[0::2], words[1::2]
