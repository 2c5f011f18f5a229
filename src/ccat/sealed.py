"""Sealed files: what they are and a digest of their content lie inside, and reading verifies both.

    content = pack({"delta": delta}, {"file": "worst/…"})
    tensors, about = unpack(content)  # ValueError if a single bit has changed

Tensors are stored as safetensors. What is said about them and the digest are one entry of the
file's metadata, so that a header can be verified without reading the tensors. A sealed JSON
document is an object with a digest of all its other members. Torch is imported where tensors are
read or written, so that lists of runs do without.
"""

import errno
import json
import os
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccat.codec import digest

if TYPE_CHECKING:
    from torch import Tensor

Tensors = dict[str, "Tensor"]
MOST_JSON = 64 << 20  # bytes
_MOST_HEADER = 16 << 20
_SMALL = 1 << 20
_ENTRY, _DIGEST, _DATA = "ccat", "digest", "data_sha256"
NO_LINKS = os.O_NOFOLLOW if hasattr(os, "O_NOFOLLOW") else 0
_NO_WAIT = os.O_NONBLOCK if hasattr(os, "O_NONBLOCK") else 0


def read_plain(path: Path | str, most: float | None = None, first: int | None = None) -> bytes:
    """Read a regular file; links, devices and files that are too large are refused.

    Args:
        path: The file.
        most: How many bytes it may have; by default what half of the free memory holds.
        first: Read only so many bytes of it.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not a regular file, or too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | NO_LINKS | _NO_WAIT)
    except OSError as refused:
        if refused.errno == errno.ELOOP:
            raise ValueError("it is a link, and links are not followed") from None
        raise
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        os.close(descriptor)
        raise ValueError("it is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        if first is None and state.st_size > (_bound(state.st_size) if most is None else most):
            raise ValueError(f"it has {state.st_size} bytes, more than can be read here")
        return file.read(-1 if first is None else first)


def _bound(size: int) -> float:
    """Return how many bytes may be read; asking the system takes time that small files save."""
    if size <= _SMALL:
        return _SMALL
    from ccat import memory  # noqa: PLC0415 (imports torch)

    return memory.free("cpu") / 2


def parse_json(content: bytes | str) -> Any:
    """Return what a JSON text holds.

    Raises:
        ValueError: It is not JSON, or nested too deeply.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def seal(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with a digest of all its members."""
    return {**plain, _DIGEST: digest(dict(plain))}


def unseal(plain: Any) -> dict[str, Any]:
    """Return a sealed JSON object without its digest.

    Raises:
        ValueError: It is not a sealed object, or was changed after it was sealed.
    """
    if not isinstance(plain, dict):
        raise ValueError(f"it holds a {type(plain).__name__}, not an object")
    content = {name: value for name, value in plain.items() if name != _DIGEST}
    if plain.get(_DIGEST) != digest(content):
        raise ValueError("its content is not what was written")
    return content


def pack(tensors: Mapping[str, "Tensor"], about: Mapping[str, Any]) -> bytes:
    """Return a sealed file of tensors and of what is said about them, as plain data."""
    from safetensors.torch import save  # noqa: PLC0415 (imports torch)

    # Copied, because safetensors refuses tensors that share memory.
    contiguous = {name: value.detach().contiguous().clone() for name, value in tensors.items()}
    layout, data = _parts(save(contiguous))
    said = json.loads(json.dumps({**about, _DATA: sha256(data).hexdigest()}))
    said[_DIGEST] = _seal_of(said, layout)
    header = json.dumps({"__metadata__": {_ENTRY: json.dumps(said)}, **layout}).encode()
    header += b" " * (-len(header) % 8)  # the format wants the data to begin at a multiple of 8
    return b"".join([len(header).to_bytes(8, "little"), header, data])


def about(path: Path) -> dict[str, Any]:
    """Return what a file says about its tensors, verified, without reading them.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not a sealed file, or what it says was changed.
    """
    size = int.from_bytes(read_plain(path, first=8), "little")
    header, _ = _parts(read_plain(path, first=8 + min(size, _MOST_HEADER + 1)))
    return _said(header)[0]


def unpack(content: bytes) -> tuple[Tensors, dict[str, Any]]:
    """Return the tensors of a sealed file and what it says about them.

    Raises:
        ValueError: It is not a sealed file, or was changed after it was written.
    """
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.torch import load  # noqa: PLC0415 (imports torch)

    header, data = _parts(content)
    said, expected = _said(header)
    if sha256(data).hexdigest() != expected:
        raise ValueError("its content is not what was written")
    try:
        return load(content), said
    except (SafetensorError, KeyError, OverflowError) as broken:
        raise ValueError(str(broken)) from broken


def _said(header: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return what the header says, verified, and the digest that the data must have."""
    metadata = header.get("__metadata__")
    text = metadata.get(_ENTRY) if isinstance(metadata, dict) else None
    said = parse_json(text) if isinstance(text, str) else None
    if not isinstance(said, dict) or _DIGEST not in said:
        raise NotSealedError(said.get("schema") if isinstance(said, dict) else None)
    claimed = said.pop(_DIGEST)
    if claimed != _seal_of(said, header):
        raise ValueError("its header is not what was written")
    return said, str(said.pop(_DATA))


class NotSealedError(ValueError):
    """A safetensors file without a seal of this version; `schema` is the one it names, if any."""

    def __init__(self, schema: Any) -> None:
        super().__init__("it was not written by this version of ccat")
        self.schema = schema


def _parts(content: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header of a safetensors file, and its data."""
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > min(_MOST_HEADER, len(content) - 8):
        raise ValueError("it is cut off, or not a safetensors file")
    header = parse_json(content[8 : 8 + size])
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    return header, memoryview(content)[8 + size :]


def _seal_of(said: Mapping[str, Any], header: Mapping[str, Any]) -> str:
    layout = {name: value for name, value in header.items() if name != "__metadata__"}
    return digest([dict(said), layout])
