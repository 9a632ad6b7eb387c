"""What a file is that calls itself .safetensors and is not.

Parsers read the first eight bytes of such a file as a header length and report it as too large
(https://github.com/microsoft/OmniParser/issues/34); here the file is named for what it is.
"""

PROBE_BYTES = 1024

_LFS = b"version https://git-lfs.github.com/spec/"
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "is a zip archive (a renamed torch .pt or .bin file, maybe)"),
    (b"\x80\x02", "is a pickle (a renamed torch .bin file, maybe)"),
    (b"\x80\x03", "is a pickle"),
    (b"\x80\x04", "is a pickle"),
    (b"\x80\x05", "is a pickle"),
    (b"GGUF", "is a GGUF file"),
    (b"\x1f\x8b", "is a gzip archive"),
    (b"\x89HDF", "is an HDF5 file"),
)


def describe(probe: bytes) -> str | None:
    """What the first `PROBE_BYTES` of a file show, as a clause; None when they show nothing."""
    if not probe.strip(b"\0"):
        return f"starts with {len(probe)} zero bytes: it was allocated and never written"
    if probe.startswith(_LFS):
        return _lfs_pointer(probe)
    text = probe.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"<"):
        return "is an HTML or XML page, not weights: a login or error page was saved instead"
    if text.startswith(b"{"):
        return "starts with JSON text, not with the 8-byte header length of safetensors"
    return next((what for magic, what in _MAGIC if probe.startswith(magic)), None)


def _lfs_pointer(probe: bytes) -> str:
    lines = probe.decode("ascii", "replace").splitlines()
    size = next((line[5:].strip() for line in lines if line.startswith("size ")), "unknown")
    return f"is a Git LFS pointer, not the weights: the real file has size {size[:20]} bytes"
