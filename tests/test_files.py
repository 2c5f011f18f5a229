"""Files are either complete or absent, whenever a process ends."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ccat.files import write_whole


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    write_whole(file, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


WRITE = """
import sys
from pathlib import Path
from ccat.files import write_whole
n = 0
while True:
    n += 1
    write_whole(Path(sys.argv[1]), bytes([n % 256]) * 10**6)
"""


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    """A writer is killed again and again; what is there is always whole."""
    file = tmp_path / "file"
    for wait in (0.1, 0.05, 0.2):
        writer = subprocess.Popen([sys.executable, "-c", WRITE, file])
        while not file.exists():
            time.sleep(0.05)
        time.sleep(wait)
        writer.kill()
        writer.wait()
        content = file.read_bytes()
        assert len(content) == 10**6
        assert len(set(content)) == 1
        file.unlink()
