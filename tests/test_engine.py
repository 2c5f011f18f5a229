import importlib
import os
import signal
import sys
import threading
import time
from collections import deque
from pathlib import Path

import pytest
import torch

from ccat import engine


def double(_common: None, n: int) -> int:
    return 2 * n


def threads_of(_common: None, _: int) -> int:
    return torch.get_num_threads()


def late(_common: None, n: int) -> int:
    time.sleep(5 if n == 0 else 0)
    return n


def die(_common: None, n: int) -> int:
    if n == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def fail(_common: None, n: int) -> int:
    if n == 2:
        raise ValueError("unit 2 is wrong")
    return n


def sleep(_: None, folder: str) -> None:
    (Path(folder) / str(os.getpid())).write_text("")
    time.sleep(60)


def tensors(_common: None, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((100,), n), torch.zeros(100)


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="counts open files as Linux lists them"
)
def test_results_leave_no_files_open() -> None:
    """Tensors sent as they are would keep two files each: too many for a thousand blocks."""
    before, most = len(list(Path("/proc/self/fd").iterdir())), 0
    for unit, (first, _) in engine.Local(2)(tensors, None, deque(range(60))):
        assert first[0] == unit
        time.sleep(0.002)  # the workers are faster
        most = max(most, len(list(Path("/proc/self/fd").iterdir())))
    assert most < before + 30


@pytest.mark.parametrize("workers", [1, 2])
def test_every_unit_comes_back_with_its_result(workers: int) -> None:
    assert sorted(engine.Local(workers)(double, None, deque([3, 1, 2]))) == [(1, 2), (2, 4), (3, 6)]
    assert list(engine.Local(workers)(double, None, deque())) == []


def test_results_come_as_they_are_done() -> None:
    """A slow unit does not keep the others from being stored."""
    assert [unit for unit, _ in engine.Local(2)(late, None, deque([0, 1, 2, 3]))][-1] == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_unit_has_one_thread(workers: int) -> None:
    before = torch.get_num_threads()
    assert [threads for _, threads in engine.Local(workers)(threads_of, None, deque([0, 1]))] == [
        1,
        1,
    ]
    assert torch.get_num_threads() == before


def process(common: str, _: int) -> tuple[int, str]:
    time.sleep(0.3)  # the other process gets a unit as well
    return os.getpid(), common


def test_kept_workers_serve_again_until_the_end_or_a_failure() -> None:
    def processes(common: str) -> set[int]:
        found = [result for _, result in engine.Local(2)(process, common, deque(range(4)))]
        assert {told for _, told in found} == {common}
        return {pid for pid, _ in found}

    with engine.workers_kept():
        first = processes("one")
        assert processes("another") == first
        with pytest.raises(ValueError, match="unit 2 is wrong"):
            list(engine.Local(2)(fail, None, deque(range(6))))
        second = processes("one")
        assert not second & first
    for pid in first | second:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_killed_worker_is_an_error_not_a_hang() -> None:
    with pytest.raises(engine.WorkerError, match="start again"):
        list(engine.Local(2)(die, None, deque(range(6))))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_unit_is_that_error(workers: int) -> None:
    done = []
    with pytest.raises(ValueError, match="unit 2 is wrong"):
        done += [unit for unit, _ in engine.Local(workers)(fail, None, deque(range(6)))]


def test_what_units_share_must_fit_into_a_pipe() -> None:
    with pytest.raises(ValueError, match="must be at most 30000 bytes on local processes"):
        list(engine.Local(2)(double, bytes(30_000), deque([1, 2])))  # type: ignore[arg-type]


def test_the_module_called_ray_does_not_hide_the_library() -> None:
    library = pytest.importorskip("ray")
    module = importlib.import_module("ccat.engine.ray")
    assert module._ray() is library
    assert library is not module
    assert callable(library.init)


def test_without_ray_the_engine_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(engine.WorkerError, match=r"pip install 'ccat-torch\[ray\]'"):
        engine.Ray().ready()


def test_workers_end_when_nobody_wants_more(tmp_path: Path) -> None:
    results = engine.Local(2)(sleep, None, deque([str(tmp_path)] * 3))
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _interrupted(results, tmp_path)
    assert time.monotonic() - begin < 30
    assert len(list(tmp_path.iterdir())) == 2
    for file in tmp_path.iterdir():
        assert (
            not Path(f"/proc/{file.name}/stat").exists()
            or " Z " in Path(f"/proc/{file.name}/stat").read_text()
        )


def _alarm_when_started(folder: Path) -> None:
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.05)
    signal.alarm(1)


def _interrupted(results: object, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    threading.Thread(target=_alarm_when_started, args=(tmp_path,), daemon=True).start()
    try:
        next(results)  # type: ignore[call-overload]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
