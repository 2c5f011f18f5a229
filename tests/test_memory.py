import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ccat import memory

FAULTS = """
import resource, sys, torch
from ccat.memory import keep_freed
torch.set_num_threads(1)
if sys.argv[1] == "kept":
    keep_freed()
x = torch.rand(10_000_000)  # beyond what glibc comes to keep by itself
for step in range(25):
    if step == 5:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    y = x + 1 + x
    del y
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems keep freed memory in ways of their own"
)
def test_freed_memory_is_kept_where_it_is_asked_for() -> None:
    kept, given_back = (
        int(
            subprocess.run(
                [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True
            ).stdout
        )
        for how in ("kept", "given back")
    )
    assert kept < given_back / 3, "pages that the system had to give"


def test_what_is_free_is_what_the_system_and_the_container_leave(tmp_path: Path) -> None:
    assert resource.getpagesize() < memory.free("cpu")
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(
        "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\nHugePages_Total:       0\n"
    )
    assert memory._available(meminfo) == 8_000_000 * 1024
    assert memory._available(tmp_path / "none") == float("inf")
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    (tmp_path / "memory.stat").write_text("anon 300\ninactive_file 50\n")
    assert memory._allowed(tmp_path) == 650, "what is only cached can be had"
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._allowed(tmp_path) == float("inf")
