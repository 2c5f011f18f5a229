"""Run directories: what is written comes back, and what is damaged or foreign is said."""

import json
import math
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from truth import seeded

from ccat import PGD, RECIPES, Case, Detection, Linf, create_model, sealed
from ccat.attacking import Attempt, Block, Worst
from ccat.attacking.case import attempt_key, identity
from ccat.files import UNFINISHED
from ccat.runs import Run, RunError, find_runs, trash
from ccat.runs.plan import Asked
from ccat.threats import Condition

RECIPE = RECIPES["mnist-ccat-demo"]
CASE = Case("a", Linf(0.3), PGD(5, 0.1))
JUDGE = "confidence"
STATE = {"generator": torch.Generator().get_state()}
OWN = {"schema": 2, "file": "run.json"}


def block(seed: int = 0) -> Block:
    probabilities = torch.rand(100, 10, generator=seeded(seed)).softmax(1)
    confidence = probabilities.amax(1)
    return Block(probabilities, confidence.log(), {JUDGE: confidence}, 1.5, 600, 500)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run.create(tmp_path / "run", RECIPE, "cpu")
    run.training.save_model(create_model("lenet", seeded()))
    return run


def attempt(run: Run, case: Case = CASE, restart: int = 0) -> Attempt:
    return Attempt(case, restart, run.weights, "data")


def worst(*keys: str) -> Worst:
    nobody = torch.full((1,), -1)
    return Worst(torch.zeros(1, 1, 2, 2), torch.zeros(1), nobody, frozenset(keys))


def save_worst(run: Run, *keys: str) -> None:
    run.attempts.save_worst(CASE.condition, JUDGE, 0, worst(*keys), run.weights, "data")


def stored_worst(run: Run, data: str = "data") -> Worst | None:
    return run.attempts.worst(CASE.condition, JUDGE, 0, run.weights, data)


def test_a_run_is_what_it_was_made_with(run: Run) -> None:
    again = Run.open(run.path)
    assert again.recipe == RECIPE
    assert again.rejection == run.rejection
    assert again.seen == (Linf(0.3),)
    assert again.about["device"] == "cpu"
    assert set(again.about["versions"]) == {"ccat", "torch", "python"}
    assert Run.create(run.path, RECIPE, "cpu").recipe == RECIPE
    assert find_runs(run.path.parent) == [run.path]


def test_another_recipe_does_not_share_its_directory(run: Run) -> None:
    with pytest.raises(RunError, match=r"another recipe .epochs is \d+, not 99.*--run"):
        Run.create(run.path, replace(RECIPE, epochs=99), "cpu")
    with pytest.raises(RunError, match=r"another recipe .rejection is Confidence.*not Detection"):
        Run.create(run.path, RECIPE, "cpu", Detection("lid"))


def test_a_directory_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunError, match=r"not empty and not a run: it holds thesis\.tex"):
        Run.create(tmp_path, RECIPE, "cpu")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_blocks_come_back_in_order_and_without_gaps(run: Run) -> None:
    one = attempt(run)
    for number in (0, 1, 3):
        run.attempts.save(one, number, block(number))
    (found,) = run.attempts.all()
    assert found.record == one.record
    assert (found.weights, found.data) == (run.weights, "data")
    assert len(found.blocks) == 2, "what lies behind a gap is not used"
    second = found.blocks[1]
    assert second.probabilities.equal(block(1).probabilities)
    assert second.value.equal(block(1).value)
    assert second.scores.keys() == {JUDGE}
    assert second.scores[JUDGE].equal(block(1).scores[JUDGE])
    assert (second.seconds, second.forwards, second.backwards) == (1.5, 600, 500)
    assert run.attempts.has(one, 3)
    assert not run.attempts.has(one, 2)
    assert run.attempts.judges_of(one, 0) == {JUDGE}


def test_a_block_is_known_by_all_that_its_numbers_depend_on(run: Run) -> None:
    base = attempt(run)
    others = [
        attempt(run, replace(CASE, attack=PGD(6, 0.1))),
        attempt(run, replace(CASE, threat=Linf(0.4))),
        attempt(run, replace(CASE, source="noise")),
        attempt(run, restart=1),
        Attempt(CASE, 0, "other", "data"),
        Attempt(CASE, 0, run.weights, "other"),
        Attempt(CASE, 0, run.weights, "data", seed=1),
    ]
    assert len({one.key for one in [base, *others]}) == 8
    same = attempt(run, replace(CASE, name="b", family="c", restarts=7))
    assert same.key == base.key, "names and further restarts change nothing"
    seeds = {one.seed_of(0) for one in [base, *others]}
    assert len(seeds) == 6, "random numbers do not depend on weights and data"
    assert base.seed_of(1) not in seeds
    assert base.seed_of(0) == replace(base, weights="other").seed_of(0)


def test_clean_answers_are_those_of_these_weights(run: Run) -> None:
    probabilities, scores = block().probabilities, block().scores[JUDGE]
    assert run.answers.clean("data") is None
    assert run.answers.clean_scores("Linf:8/255", "data") is None
    run.answers.save_clean(probabilities, "data")
    run.answers.save_clean_scores("Linf:8/255", scores, "data")
    stored = run.answers.clean("data"), run.answers.clean_scores("Linf:8/255", "data")
    assert stored[0] is not None
    assert stored[0].equal(probabilities)
    assert stored[1] is not None
    assert stored[1].equal(scores)
    assert run.answers.clean("other data") is None
    assert run.answers.clean_scores("Linf:8/255", "other data") is None
    run.training.save_model(create_model("lenet", seeded(1)))
    again = Run.open(run.path)
    assert again.answers.clean("data") is None
    assert again.answers.clean_scores("Linf:8/255", "data") is None


def test_a_checkpoint_comes_back(run: Run) -> None:
    assert run.training.checkpoint() is None
    run.training.save_checkpoint(STATE | {"a": torch.arange(3)}, epoch=5)
    saved = run.training.checkpoint()
    assert saved is not None
    assert saved[0]["a"].tolist() == [0, 1, 2]
    assert saved[1] == 5


def test_a_log_is_whole_and_in_order_or_refused(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "training", RECIPE, "cpu")
    run.training.save_log([{"epoch": 1}, {"epoch": 2}])
    assert [entry["epoch"] for entry in run.training.log()] == [1, 2]
    file = run.path / "log.jsonl"
    first, second = file.read_text().splitlines()
    for text in (f"{second}\n{first}\n", f"{first}\n{first}\n", first[:-10], "[]", "é"):
        file.write_text(text)
        with pytest.raises(RunError, match=r"log\.jsonl is damaged .*delete it"):
            run.training.log()


def test_pruning_frees_what_is_not_needed_and_nothing_else(run: Run) -> None:
    run.training.save_checkpoint({"a": torch.zeros(1000)}, epoch=1)
    run.attempts.save(attempt(run), 0, block())
    run.attempts.save(Attempt(CASE, 0, "older", "data"), 0, block())
    save_worst(run, "a", "b")
    noise = Condition(Linf(0.3), "noise")
    run.attempts.save_worst(noise, JUDGE, 0, worst("a"), "older", "data")
    (run.path / "attempts" / f".0000.safetensors.17{UNFINISHED}").write_bytes(b"half")
    assert run.disk_use()["unfinished"] == 4
    found = trash.prunable(run)
    assert sum(trash.size_of(run, name) for name in found) > 4000
    assert sorted(found.values()) == [
        "belongs to other weights than the run's model",
        "belongs to other weights than the run's model",
        "training is finished",
        "unfinished, left by a process that was killed",
    ]
    before = run.disk_use()
    trash.discard(run, found)
    assert sum(run.disk_use().values()) == sum(before.values()), "it is moved, not deleted"
    assert [found.record for found in run.attempts.all()] == [attempt(run).record]
    assert run.training.checkpoint() is None
    kept = stored_worst(run)
    assert kept is not None
    assert kept.of == {"a", "b"}
    assert stored_worst(run, "other data") is None
    assert run.attempts.worst(noise, JUDGE, 0, "older", "data") is None
    assert run.attempts.data_of(run.weights) == {"data"}
    assert trash.prunable(run) == {}
    assert trash.empty(run) > 4000
    assert "trash" not in run.disk_use()
    assert trash.empty(run) == 0


@pytest.mark.parametrize("which", ["model.safetensors", "trained.json"])
@pytest.mark.parametrize("content", [b"", b"half", None])
def test_nothing_is_pruned_on_a_damaged_premise(
    run: Run, which: str, content: bytes | None
) -> None:
    run.attempts.save(attempt(run), 0, block())
    run.training.save_checkpoint({"a": torch.zeros(1000)}, epoch=1)
    whole = (run.path / which).read_bytes()
    flipped = bytearray(whole)
    flipped[-20] ^= 4
    (run.path / which).write_bytes(bytes(flipped) if content is None else content)
    before = run.disk_use()
    with pytest.raises(RunError, match=rf"{which} is damaged .*restore it from a copy"):
        trash.prunable(Run.open(run.path))
    assert run.disk_use() == before
    (run.path / which).write_bytes(whole)
    assert list(trash.prunable(Run.open(run.path))) == ["checkpoint.safetensors"]


def test_perturbations_are_kept_by_condition_and_judge(run: Run) -> None:
    place = (run.weights, "data")
    save_worst(run, "a")
    run.attempts.save_worst(CASE.condition, "Linf:0.3", 0, worst("b"), *place)
    run.attempts.save_worst(Condition(Linf(0.3), "noise"), JUDGE, 0, worst("c"), *place)
    for condition, judge, keys in (
        (CASE.condition, JUDGE, {"a"}),
        (CASE.condition, "Linf:0.3", {"b"}),
        (Condition(Linf(0.3), "noise"), JUDGE, {"c"}),
    ):
        found = run.attempts.worst(condition, judge, 0, *place)
        assert found is not None
        assert found.of == keys
    assert run.attempts.worst(CASE.condition, JUDGE, 1, *place) is None
    assert run.attempts.worst(CASE.condition, JUDGE, 0, "other", "data") is None


def test_the_plan_remembers_the_last_of_each_suite(run: Run) -> None:
    x, y = Condition(Linf(0.3)), Condition(Linf(0.3), "noise")

    def ask(suite: str, examples: int, weights: str = run.weights, **of: Condition) -> None:
        run.plan.add(Asked(suite, examples, weights, of))

    assert run.plan.asked() == []
    ask("--suite quick", 100, a=x)
    ask("--suite other", 100, b=y)
    ask("--suite quick", 200, a=x, c=x)
    ask("--suite quick", 50, a=x, c=x)
    assert run.plan.asked() == [
        Asked("--suite other", 100, run.weights, {"b": y}),
        Asked("--suite quick", 200, run.weights, {"a": x, "c": x}),
    ]
    ask("--suite quick", 100, "other weights", a=x)
    assert run.plan.asked() == [Asked("--suite quick", 100, "other weights", {"a": x})]
    (run.path / "plan.json").write_text("{")
    with pytest.raises(RunError, match=r"plan\.json is damaged.*delete it"):
        run.plan.asked()


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def schema(file: Path) -> None:
    save_file(load_file(file), file, {"ccat": '{"schema": 99}'})


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)


def link(file: Path) -> None:
    file.rename(file.with_suffix(".moved"))
    file.symlink_to(file.with_suffix(".moved"))


def resealed(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what a file says about its tensors, with a seal that fits."""
    about = metadata(file)
    change(about)
    file.write_bytes(sealed.pack(load_file(file), about))


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        flip,
        link,
        schema,
        lambda file: file.write_bytes(b""),
        lambda file: file.write_text("hello, this is text"),
    ],
)
@pytest.mark.parametrize("which", ["block", "checkpoint", "clean", "scores", "worst"])
def test_a_damaged_file_is_named_with_what_to_do(
    run: Run, damage: Callable[[Path], object], which: str
) -> None:
    run.attempts.save(attempt(run), 0, block())
    run.training.save_checkpoint(STATE, epoch=1)
    run.answers.save_clean(block().probabilities, "data")
    run.answers.save_clean_scores("Linf:0.3", block().value, "data")
    save_worst(run, "a")
    read: dict[str, tuple[str, Callable[[], object]]] = {
        "block": ("attempts/*/0000.safetensors", lambda: list(run.attempts.all())),
        "checkpoint": ("checkpoint.safetensors", run.training.checkpoint),
        "clean": ("clean.safetensors", lambda: run.answers.clean("data")),
        "scores": ("scores/*.safetensors", lambda: run.answers.clean_scores("Linf:0.3", "data")),
        "worst": ("worst/*/*/0000.safetensors", lambda: stored_worst(run)),
    }
    pattern, function = read[which]
    (file,) = run.path.glob(pattern)
    damage(file)
    with pytest.raises(
        RunError, match=rf"{file.name} (is damaged|was written by another version).*delete it"
    ):
        function()


def metadata(file: Path) -> dict[str, Any]:
    return sealed.unpack(file.read_bytes())[1]


def test_blocks_of_an_older_version_of_an_attack_stay_readable(run: Run) -> None:
    """A field added to an attack later does not make stored blocks foreign.

    Their key is of what was stored.
    """
    one = attempt(run)
    run.attempts.save(one, 0, block())
    (file,) = run.path.glob("attempts/*/0000.safetensors")
    case = metadata(file)["case"]
    del case["attack"]["momentum"]
    key = attempt_key(identity(case), 0, run.weights, "data", 0)
    resealed(file, lambda about: about.update(case=case, file=f"attempts/{key}/0000.safetensors"))
    file.parent.rename(file.parent.with_name(key))
    (found,) = run.attempts.all()
    assert found.record == replace(one.record, key=key)
    assert key != one.key
    assert not run.attempts.has(one, 0), "it is not reused for the case as it is now"


def test_a_field_that_is_none_changes_no_key(run: Run) -> None:
    """So a field that is added later, None by default, leaves stored blocks in use."""
    plain = CASE.identity()
    assert PGD(5, 0.1).gradient is None
    assert "gradient" not in plain["attack"]
    assert attempt_key(plain, 0, run.weights, "data", 0) == attempt(run).key


def test_a_checkpoint_of_another_recipe_is_refused(run: Run, tmp_path: Path) -> None:
    other = Run.create(tmp_path / "other", replace(RECIPE, seed=5), "cpu")
    other.training.save_checkpoint(STATE, epoch=3)
    (run.path / "checkpoint.safetensors").write_bytes(
        (other.path / "checkpoint.safetensors").read_bytes()
    )
    with pytest.raises(RunError, match="does not belong to this run's recipe; delete it"):
        run.training.checkpoint()


def test_a_checkpoint_from_before_a_field_was_added_is_still_of_its_recipe(run: Run) -> None:
    run.training.save_checkpoint(STATE, epoch=3)
    resealed(run.path / "checkpoint.safetensors", lambda about: about["recipe"].pop("decay"))
    found = run.training.checkpoint()
    assert found is not None
    assert found[1] == 3


def test_valid_files_of_another_kind_are_refused(run: Run) -> None:
    run.answers.save_clean(block().probabilities, "data")
    save_worst(run, "a")
    run.attempts.save(attempt(run), 0, block())
    clean = run.path / "clean.safetensors"
    (stored,) = run.path.glob("attempts/*/*")
    (perturbations,) = run.path.glob("worst/*/*/*")
    stored.write_bytes(clean.read_bytes())
    with pytest.raises(RunError, match=r"it is 'clean.safetensors', moved or copied here.*delete"):
        list(run.attempts.all())
    about = metadata(perturbations)
    perturbations.write_bytes(clean.read_bytes())
    with pytest.raises(RunError, match=r"it is 'clean.safetensors', moved or copied here.*delete"):
        stored_worst(run)
    perturbations.write_bytes(sealed.pack(load_file(clean), about))
    with pytest.raises(RunError, match=r"it has no delta.*delete it"):
        stored_worst(run)


def test_swapped_and_copied_blocks_are_refused(run: Run) -> None:
    one = attempt(run)
    for number in range(3):
        run.attempts.save(one, number, block(number))
    files = sorted(run.path.glob("attempts/*/*.safetensors"))
    contents = [file.read_bytes() for file in files]
    for order in ([1, 0, 2], [0, 0, 2], [0, 2, 2]):
        for file, source in zip(files, order, strict=True):
            file.write_bytes(contents[source])
        with pytest.raises(RunError, match=r"moved or copied here"):
            list(run.attempts.all())
        wrong = next(n for n in range(3) if order[n] != n)
        with pytest.raises(RunError, match=r"moved or copied here"):
            run.attempts.judges_of(one, wrong)


def test_a_block_with_a_fitting_seal_must_still_be_a_block(run: Run) -> None:
    run.attempts.save(attempt(run), 0, block())
    run.attempts.save(attempt(run), 1, block())
    file, _ = sorted(run.path.glob("attempts/*/*.safetensors"))
    tensors, about = sealed.unpack(file.read_bytes())
    for change, message in (
        ({"value": tensors["value"] * torch.nan}, "its value is not one number"),
        ({"score:confidence": tensors["value"][:50]}, "its score:confidence|its confidence is not"),
        ({"probabilities": tensors["probabilities"] * 2}, "its probabilities are none"),
        ({"probabilities": tensors["probabilities"][:7]}, "holds probabilities of"),
    ):
        file.write_bytes(sealed.pack(tensors | change, about))
        with pytest.raises(RunError, match=message):
            list(run.attempts.all())
    short = {name: value[:40] for name, value in tensors.items()}
    file.write_bytes(sealed.pack(short, {**about, "rows": 40}))
    with pytest.raises(RunError, match="is not a whole block, but one follows"):
        list(run.attempts.all())


def test_equal_results_are_equal_files_whatever_time_they_took(run: Run, tmp_path: Path) -> None:
    other = Run.create(tmp_path / "other", RECIPE, "cpu")
    other.training.save_model(create_model("lenet", seeded()))
    for one, seconds in ((run, 1.0), (other, 9.0)):
        one.attempts.save(attempt(one), 0, replace(block(), seconds=seconds))
        one.training.save_log([{"epoch": 1, "loss": 0.5, "training_seconds": seconds}])
    for name in ("attempts/*/*", "log.jsonl", "trained.json", "model.safetensors"):
        (mine,), (theirs,) = run.path.glob(name), other.path.glob(name)
        assert mine.read_bytes() == theirs.read_bytes()
    assert [one.blocks[0].seconds for one in other.attempts.all()] == [9.0]
    (other.path / "timings.jsonl").write_text("damaged")
    assert math.isnan(next(other.attempts.all()).blocks[0].seconds), "nothing depends on timings"


def test_a_block_in_the_wrong_place_is_noticed(run: Run) -> None:
    one = attempt(run)
    run.attempts.save(one, 0, block())
    (run.path / "attempts" / one.key).rename(run.path / "attempts" / ("0" * 64))
    with pytest.raises(RunError, match="moved or copied here"):
        list(run.attempts.all())
    (file,) = run.path.glob("attempts/*/*.safetensors")
    resealed(file, lambda about: about.update(file=f"attempts/{'0' * 64}/0000.safetensors"))
    with pytest.raises(RunError, match="it belongs to another attempt"):
        list(run.attempts.all())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ("{}", "damaged"),
        (
            json.dumps({"schema": 1, "versions": {"ccat": "0.1"}, "recipe": {}}),
            r"made by ccat 0\.1 in schema 1, and this version reads schema 2 only: make the run "
            "again with `ccat train`",
        ),
        (json.dumps({"schema": 0, "recipe": {}}), "in schema 0, and this version reads schema 2"),
        (
            json.dumps(sealed.seal({**OWN, "recipe": {"kind": "Unheard"}})),
            "cannot be read .unknown kind 'Unheard'",
        ),
        (json.dumps(sealed.seal(OWN)), "cannot be read"),
        (json.dumps({**OWN, "digest": "0"}), "damaged .its content is not what was written"),
        (json.dumps(sealed.seal({"schema": 2, "file": "plan.json"})), "moved or copied here"),
        ("[" * 100_000, "damaged .it is nested too deeply"),
    ],
)
def test_a_run_of_another_kind_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunError, match=message):
        Run.open(tmp_path)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="there is no run at"):
        Run.open(tmp_path)
    untrained = Run.create(tmp_path / "run", RECIPE, "cpu")
    with pytest.raises(RunError, match="is not trained yet: rerun the `ccat train` that began it"):
        untrained.training.model()
    with pytest.raises(RunError, match="is not trained yet"):
        _ = untrained.weights


HOLD = """
import sys, time
from pathlib import Path
from ccat.runs import Run
with Run.open(Path(sys.argv[1])).writing():
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_process_writes_at_a_time_and_a_killed_one_leaves_no_lock(run: Run) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, run.path], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(RunError, match=f"in use by another process .process {other.pid} on"),
            run.writing(),
        ):
            pass
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    with run.writing():
        pass
    with run.writing():
        pass
