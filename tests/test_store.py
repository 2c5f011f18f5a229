import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from truth import seeded

from ccat import PGD, Linf, create_model, other_class_confidence
from ccat.attempts import Attempt, Block, Worst, attempt_key
from ccat.cookbook import RECIPES
from ccat.files import UNFINISHED, write_whole
from ccat.recipes import Case
from ccat.store import Run, StoreError, find_runs

RECIPE = RECIPES["mnist-ccat-demo"]
CASE = Case("a", "PGD", Linf(0.3), PGD(5, 0.1), other_class_confidence)


def block(seed: int = 0) -> Block:
    probabilities = torch.rand(100, 10, generator=seeded(seed)).softmax(1)
    return Block(probabilities, probabilities.amax(1), 1.5, 600, 500)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run.create(tmp_path / "run", RECIPE, "cpu")
    run.save_model(create_model("lenet", seeded()))
    return run


def attempt(run: Run, case: Case = CASE, restart: int = 0) -> Attempt:
    return Attempt.of(case, restart, run.weights, "data")


def worst(*keys: str) -> Worst:
    return Worst(torch.zeros(1, 1, 2, 2), torch.zeros(1), torch.zeros(1, dtype=torch.int64), frozenset(keys))


def test_a_run_is_what_it_was_made_with(run: Run) -> None:
    again = Run.open(run.path)
    assert again.recipe == RECIPE
    assert again.about["device"] == "cpu"
    assert set(again.about["versions"]) == {"ccat", "torch", "python"}
    assert Run.create(run.path, RECIPE, "cpu").recipe == RECIPE
    assert find_runs(run.path.parent) == [run.path]


def test_another_recipe_does_not_share_its_directory(run: Run) -> None:
    with pytest.raises(StoreError, match=r"another recipe .epochs is \d+, not 99.*--run"):
        Run.create(run.path, replace(RECIPE, epochs=99), "cpu")


def test_a_directory_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match=r"not empty and not a run: it holds thesis\.tex"):
        Run.create(tmp_path, RECIPE, "cpu")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_blocks_come_back_in_order_and_without_gaps(run: Run) -> None:
    one = attempt(run)
    for number in (0, 1, 3):
        run.save_block(one, number, block(number))
    ((found, blocks),) = run.attempts()
    assert found == one
    assert len(blocks) == 2, "what lies behind a gap is not used"
    assert blocks[1].probabilities.equal(block(1).probabilities)
    assert (blocks[1].seconds, blocks[1].forwards, blocks[1].backwards) == (1.5, 600, 500)
    assert run.has_block(one, 3)
    assert not run.has_block(one, 2)


def test_a_block_is_known_by_all_that_its_numbers_depend_on(run: Run) -> None:
    base = attempt(run)
    others = [
        attempt(run, replace(CASE, attack=PGD(6, 0.1))),
        attempt(run, replace(CASE, threat=Linf(0.4))),
        attempt(run, replace(CASE, source="noise")),
        attempt(run, restart=1),
        Attempt.of(CASE, 0, "other", "data"),
        Attempt.of(CASE, 0, run.weights, "other"),
        Attempt.of(CASE, 0, run.weights, "data", seed=1),
    ]
    assert len({one.key for one in [base, *others]}) == 8
    same = attempt(run, replace(CASE, name="b", family="c", restarts=7))
    assert same.key == base.key, "names and further restarts change nothing"
    seeds = {one.seed_of(0) for one in [base, *others]}
    assert len(seeds) == 6, "random numbers do not depend on weights and data"
    assert base.seed_of(1) not in seeds
    assert base.seed_of(0) == replace(base, weights="other").seed_of(0)


def test_clean_probabilities_are_those_of_these_weights(run: Run) -> None:
    assert run.clean("data") is None
    run.save_clean(block().probabilities, "data")
    stored = run.clean("data")
    assert stored is not None
    assert stored.equal(block().probabilities)
    assert run.clean("other data") is None
    run.save_model(create_model("lenet", seeded(1)))
    assert Run.open(run.path).clean("data") is None


def test_a_checkpoint_comes_back(run: Run) -> None:
    assert run.checkpoint() is None
    run.save_checkpoint({"a": torch.arange(3)}, epoch=7)
    saved = run.checkpoint()
    assert saved is not None
    assert saved[0]["a"].tolist() == [0, 1, 2]
    assert saved[1] == 7


def test_a_log_line_that_a_kill_cut_off_is_left_out(run: Run) -> None:
    run.rewrite_log([{"epoch": 1}, {"epoch": 2}])
    with (run.path / "log.jsonl").open("a") as file:
        file.write('{"epoch": 3, "lo')
    assert [entry["epoch"] for entry in run.log()] == [1, 2]


def test_pruning_frees_what_is_not_needed_and_nothing_else(run: Run) -> None:
    run.save_checkpoint({"a": torch.zeros(1000)}, epoch=1)
    run.save_block(attempt(run), 0, block())
    run.save_block(Attempt.of(CASE, 0, "older", "data"), 0, block())
    run.save_worst("Linf:0.3", 0, worst("a", "b"), "data")
    (run.path / "attempts" / f".0000.safetensors.17{UNFINISHED}").write_bytes(b"half")
    assert run.disk_use()["unfinished"] == 4
    assert run.prune() > 4000
    assert [found for found, _ in run.attempts()] == [attempt(run)]
    assert run.checkpoint() is None
    kept = run.worst("Linf:0.3", 0, "data")
    assert kept is not None
    assert kept.of == {"a", "b"}
    assert run.worst("Linf:0.3", 0, "other data") is None
    assert run.attacked_data() == {"data"}
    assert "unfinished" not in run.disk_use()
    assert run.prune() == 0


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def schema(file: Path) -> None:
    save_file(load_file(file), file, {"ccat": '{"schema": 99}'})


@pytest.mark.parametrize(
    "damage", [truncate, schema, lambda file: file.write_bytes(b""), lambda file: file.write_text("hello, this is text")]
)
@pytest.mark.parametrize("which", ["block", "checkpoint", "clean", "worst"])
def test_a_damaged_file_is_named_with_what_to_do(run: Run, damage: Callable[[Path], object], which: str) -> None:
    run.save_block(attempt(run), 0, block())
    run.save_checkpoint({"a": torch.zeros(3)}, epoch=1)
    run.save_clean(block().probabilities, "data")
    run.save_worst("Linf:0.3", 0, worst("a"), "data")
    read: dict[str, tuple[str, Callable[[], object]]] = {
        "block": ("attempts/*/0000.safetensors", lambda: list(run.attempts())),
        "checkpoint": ("checkpoint.safetensors", run.checkpoint),
        "clean": ("clean.safetensors", lambda: run.clean("data")),
        "worst": ("worst/*/0000.safetensors", lambda: run.worst("Linf:0.3", 0, "data")),
    }
    pattern, function = read[which]
    (file,) = run.path.glob(pattern)
    damage(file)
    with pytest.raises(StoreError, match=rf"{file.name} (is damaged|was not written by).*delete it"):
        function()


def test_blocks_of_an_older_version_of_a_case_stay_readable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that is added to an attack later must not make stored blocks foreign: their key is of what was stored."""
    one = attempt(run)
    older = {name: value for name, value in one.case.identity().items() if name != "source"}
    key = attempt_key(older, 0, run.weights, "data", 0)
    run.save_block(replace(one, key=key), 0, block())
    file = run.path / "attempts" / key / "0000.safetensors"
    tensors = load_file(file)
    about = {"schema": 1, "case": {**older, "name": "a", "family": "PGD", "restarts": 1}, "restart": 0, "seed": 0, "weights": run.weights}
    save_file(tensors, file, {"ccat": json.dumps({**about, "data": "data", "seconds": 1.0, "forwards": 1, "backwards": 1})})
    ((found, _),) = run.attempts()
    assert found.case == CASE
    assert found.key == key != one.key, "but it is not reused for the case as it is now"


def test_a_checkpoint_of_another_recipe_is_refused(run: Run, tmp_path: Path) -> None:
    other = Run.create(tmp_path / "other", replace(RECIPE, seed=5), "cpu")
    other.save_checkpoint({"a": torch.zeros(1)}, epoch=3)
    (run.path / "checkpoint.safetensors").write_bytes((other.path / "checkpoint.safetensors").read_bytes())
    with pytest.raises(StoreError, match="not of this run's recipe; delete it"):
        run.checkpoint()


def test_a_checkpoint_from_before_a_field_was_added_is_still_of_its_recipe(run: Run) -> None:
    run.save_checkpoint({"a": torch.zeros(1)}, epoch=3)
    file = run.path / "checkpoint.safetensors"
    with safe_open(file, framework="pt") as opened:
        about = json.loads(opened.metadata()["ccat"])
    del about["recipe"]["decay"]
    save_file(load_file(file), file, {"ccat": json.dumps(about)})
    found = run.checkpoint()
    assert found is not None
    assert found[1] == 3


def test_valid_files_of_another_kind_are_refused(run: Run) -> None:
    run.save_clean(block().probabilities, "data")
    run.save_worst("Linf:0.3", 0, worst("a"), "data")
    run.save_block(attempt(run), 0, block())
    clean = (run.path / "clean.safetensors").read_bytes()
    for pattern, read in (("worst/*/*", lambda: run.worst("Linf:0.3", 0, "data")), ("attempts/*/*", lambda: list(run.attempts()))):
        (file,) = run.path.glob(pattern)
        file.write_bytes(clean)
        with pytest.raises(StoreError, match=r"is not a block|does not hold perturbations"):
            read()


def test_the_plan_remembers_the_last_of_each_suite(run: Run) -> None:
    assert run.plan() == []
    run.add_to_plan("quick", 100, ["a"])
    run.add_to_plan("other", 100, ["b"])
    run.add_to_plan("quick", 200, ["a", "c"])
    run.add_to_plan("quick", 50, ["a", "c"])
    assert [(one["suite"], one["examples"], one["keys"]) for one in run.plan()] == [("other", 100, ["b"]), ("quick", 200, ["a", "c"])]
    (run.path / "plan.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        run.plan()


def test_a_block_in_the_wrong_place_is_noticed(run: Run) -> None:
    one = attempt(run)
    run.save_block(one, 0, block())
    (run.path / "attempts" / one.key).rename(run.path / "attempts" / ("0" * 64))
    with pytest.raises(StoreError, match="belongs to another attempt"):
        list(run.attempts())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ("{}", "damaged"),
        (json.dumps({"schema": 0, "recipe": {}}), "another version of ccat: its schema is 0, this is 1"),
        (json.dumps({"schema": 1, "recipe": {"kind": "Unheard"}}), "cannot read .unknown kind 'Unheard'"),
        (json.dumps({"schema": 1}), "cannot read"),
    ],
)
def test_a_run_of_another_kind_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(StoreError, match=message):
        Run.open(tmp_path)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no run at"):
        Run.open(tmp_path)
    untrained = Run.create(tmp_path / "run", RECIPE, "cpu")
    with pytest.raises(StoreError, match="is not trained yet: the command that began its training"):
        untrained.model()
    with pytest.raises(StoreError, match="is not trained yet"):
        _ = untrained.weights


HOLD = """
import sys, time
from pathlib import Path
from ccat.store import Run
with Run.open(Path(sys.argv[1])).writing():
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_process_writes_at_a_time_and_a_killed_one_leaves_no_lock(run: Run) -> None:
    other = subprocess.Popen([sys.executable, "-c", HOLD, run.path], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=f"in use by another process .process {other.pid} on"), run.writing():
            pass
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    with run.writing():
        pass
    with run.writing():
        pass


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
