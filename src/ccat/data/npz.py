"""Arrays of an .npz file, read with care: nothing is unpickled, or larger than it says."""

import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ccat import memory

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
)


def read_npz(path: Path, names: Sequence[str], needs: str) -> list[NDArray[Any]]:
    """Return arrays of an .npz file.

    Args:
        path: The file.
        names: The arrays wanted.
        needs: What such a file has to hold, for the message if one is missing.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, or an array is missing, too large, or holds objects.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            there = set(archive.namelist())
            for name in names:
                if f"{name}.npy" not in there:
                    raise ValueError(f"{path} has no array {name}; it needs {needs}")
            return [_array(path, archive, name) for name in names]
    except _BROKEN as broken:
        if str(broken).startswith(str(path)):
            raise
        raise ValueError(f"{path} is damaged or not an .npz file ({broken})") from broken


def _array(path: Path, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    member = archive.getinfo(f"{name}.npy")
    if member.flag_bits & 1:
        raise ValueError(f"{path}: {name} is encrypted; save it with np.savez")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{path}: {name} is compressed in another way than np.savez does it")
    if member.file_size > memory.free("cpu") / 4:
        raise ValueError(f"{path}: {name} has {member.file_size} bytes, more than fit into memory")
    with archive.open(member) as stream:
        version = npy.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"{path}: {name} is of an unknown version of the format {version}")
        shape, by_columns, dtype = _HEADERS[version](stream)
        if dtype.hasobject:
            raise ValueError(
                f"{path} has objects inside, which are never loaded: "
                "store images as bytes and labels as whole numbers"
            )
        size = math.prod(shape) * dtype.itemsize
        if size != member.file_size - stream.tell():
            raise ValueError(f"{path}: {name} is not as large as it says it is")
        content = stream.read()
    array = np.frombuffer(bytearray(content), dtype)
    return array.reshape(shape, order="F" if by_columns else "C")
