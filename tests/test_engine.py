import os
import signal
import time
from pathlib import Path

import pytest

from ccat import engine


def double(n: int) -> int:
    return 2 * n


def late(n: int) -> int:
    time.sleep(0.3 if n == 0 else 0)
    return n


def die(n: int) -> int:
    if n == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def fail(n: int) -> int:
    if n == 2:
        raise ValueError("unit 2 is wrong")
    return n


def sleep(folder: str) -> None:
    (Path(folder) / str(os.getpid())).write_text("")
    time.sleep(60)


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers: int) -> None:
    assert list(engine.run(double, [3, 1, 2], workers)) == [(3, 6), (1, 2), (2, 4)]
    assert list(engine.run(late, [0, 1, 2], workers)) == [(0, 0), (1, 1), (2, 2)]
    assert list(engine.run(double, [], workers)) == []


def test_a_killed_worker_is_an_error_not_a_hang() -> None:
    with pytest.raises(engine.WorkerError, match="start again"):
        list(engine.run(die, list(range(6)), 2))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_unit_is_that_error(workers: int) -> None:
    done = []
    with pytest.raises(ValueError, match="unit 2 is wrong"):
        done += [unit for unit, _ in engine.run(fail, list(range(6)), workers)]


def test_workers_end_when_nobody_wants_more(tmp_path: Path) -> None:
    results = engine.run(sleep, [str(tmp_path)] * 3, 2)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _interrupted(results, tmp_path)
    assert time.monotonic() - begin < 30
    for file in tmp_path.iterdir():
        assert not Path(f"/proc/{file.name}/stat").exists() or " Z " in Path(f"/proc/{file.name}/stat").read_text()


def _interrupted(results: object, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(8)
    try:
        next(results)  # type: ignore[call-overload]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
