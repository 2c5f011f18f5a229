"""Sealed files: whatever is changed is noticed, and nothing that is not a plain file is read."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ccat import sealed

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([True, False])}
ABOUT = {"schema": 2, "file": "x", "numbers": [1, 0.1, None], "text": "ε"}
CONTENT = sealed.pack(TENSORS, ABOUT)


def test_what_is_packed_comes_back_and_equal_content_is_equal_bytes() -> None:
    tensors, about = sealed.unpack(CONTENT)
    assert about == ABOUT
    assert tensors.keys() == TENSORS.keys()
    assert all(tensors[name].equal(TENSORS[name]) for name in TENSORS)
    assert sealed.pack(dict(reversed(TENSORS.items())), ABOUT) == CONTENT


def test_tensors_that_share_memory_are_packed() -> None:
    whole = torch.arange(4)
    tensors, _ = sealed.unpack(sealed.pack({"all": whole, "part": whole[:2]}, {}))
    assert tensors["part"].tolist() == [0, 1]


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_every_changed_byte_is_noticed(place: int, by: int) -> None:
    changed = bytearray(CONTENT)
    changed[place] ^= by
    with pytest.raises(ValueError, match=r".+"):
        sealed.unpack(bytes(changed))


@given(st.integers(0, len(CONTENT) - 1))
def test_every_cut_is_noticed(place: int) -> None:
    with pytest.raises(ValueError, match=r".+"):
        sealed.unpack(CONTENT[:place])


def test_data_of_another_file_under_this_header_is_noticed() -> None:
    other = sealed.pack({"a": TENSORS["a"] + 1, "b": TENSORS["b"]}, ABOUT)
    start = len(CONTENT) - 6 * 4 - 2
    with pytest.raises(ValueError, match="its content is not what was written"):
        sealed.unpack(CONTENT[:start] + other[start:])


def test_a_header_is_verified_without_the_data(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(CONTENT[:-8] + b"damaged!")
    assert sealed.about(file) == ABOUT
    file.write_bytes(CONTENT.replace(b"schema", b"schemb"))
    with pytest.raises(ValueError, match="its header is not what was written"):
        sealed.about(file)
    file.write_bytes((1 << 62).to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match="cut off"):
        sealed.about(file)


def test_json_is_sealed_too() -> None:
    plain = {"b": [1.5, {"c": None}], "a": "ε"}
    assert sealed.unseal(sealed.seal(plain)) == plain
    wrong: list[object] = [{**sealed.seal(plain), "a": "e"}, plain, [], None, {"digest": 1}]
    for changed in wrong:
        with pytest.raises(ValueError, match=r"not what was written|not an object"):
            sealed.unseal(changed)


def test_json_is_not_followed_into_the_depths() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        sealed.parse_json(b"[" * 100_000)


def test_only_plain_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    file, link, pipe = (tmp_path / name for name in ("file", "link", "pipe"))
    file.write_bytes(b"x" * 100)
    link.symlink_to(file)
    os.mkfifo(pipe)
    assert sealed.read_plain(file) == b"x" * 100
    assert sealed.read_plain(file, first=3) == b"xxx"
    for path, message in (
        (link, "it is a link"),
        (pipe, "it is not a regular file"),
        (tmp_path, "it is not a regular file"),
        (Path("/dev/zero"), "it is not a regular file"),
    ):
        with pytest.raises(ValueError, match=message):
            sealed.read_plain(path)
    with pytest.raises(ValueError, match="it has 100 bytes, more than can be read here"):
        sealed.read_plain(file, most=99)
    with pytest.raises(FileNotFoundError):
        sealed.read_plain(tmp_path / "nothing")
