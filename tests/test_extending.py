"""Attacks, methods, threats, networks and objectives of a user's own, in a package outside ccat.

Each addition is one file of at most 25 lines and goes through train or attack, store, resume,
evaluate and report, without a line of ccat being edited.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import ccat
from ccat import Images, codec, extensions, sealed
from ccat.attacking import Case
from ccat.cli import main
from ccat.runs import Run
from ccat.threats import label

FILES = {
    "attacks": '''
from dataclasses import dataclass
import torch
import ccat

@dataclass(frozen=True)
class Corners(ccat.Attack):
    """Random corners of the ball."""

    iterations: int = 3

    def __call__(self, problem, generator):
        found = problem.evaluate(torch.zeros_like(problem.x))
        for _ in range(self.iterations):
            signs = torch.randint(2, problem.x.shape, generator=generator) * 2.0 - 1
            found = ccat.best(found, problem.evaluate(problem.threat.epsilon * signs))
        return found

    def cost(self, shape):
        return ccat.Counts(1 + self.iterations)

longer = Corners(iterations=5)

def greyer(x, y):
    return x + (0.5 - x).clamp(-0.3, 0.3)
''',
    "methods": '''
from dataclasses import dataclass
from torch.nn import functional
import ccat

@dataclass(frozen=True)
class Smoothed(ccat.Method):
    """Cross-entropy with smoothed labels."""

    smoothing: float = 0.1

    def __call__(self, model, forward, x, y, generator):
        return functional.cross_entropy(forward(x), y, label_smoothing=self.smoothing)
''',
    "threats": '''
from dataclasses import dataclass
import torch

@dataclass(frozen=True)
class TopRows:
    """The first ε rows may take any values."""

    epsilon: int = 2

    def size(self, delta):
        rows = torch.arange(1, delta.shape[2] + 1)
        return ((delta != 0).any(3).any(1) * rows).amax(1).to(delta.dtype)

    def _inside(self, x):
        return (torch.arange(x.shape[2]) < self.epsilon).to(x.dtype)[:, None]

    def project(self, x, delta):
        return delta.clamp(-x, 1 - x) * self._inside(x)

    def ascent(self, gradient, image):
        return gradient.sign() * self._inside(gradient)

    def sample(self, x, generator):
        return (torch.rand(x.shape, generator=generator) - x) * self._inside(x)
''',
    "nets": """
from torch import nn

def tiny(channels, classes):
    layers = nn.Conv2d(channels, 4, 5, stride=3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(classes)
    return nn.Sequential(*layers[:3], nn.Linear(256, classes))
""",
    "recipes": """
import ccat
from mine.methods import Smoothed

threat = ccat.Linf(0.3)
probe = ccat.Probe(threat, ccat.PGD(2, 0.1))
mine = ccat.Recipe("mine", Smoothed(0.2), 1, ccat.LinearToZero(), probe, images=700)
""",
}
TRAIN = ["train", "--recipe", "mine.recipes:mine", "--run", "runs/mine"]
ATTACK = ["--examples", "100", "--workers", "1"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with the package `mine`, which nobody has imported or trusted yet."""
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, text in FILES.items():
        (package / f"{name}.py").write_text(text.lstrip())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extensions, "_trusted", set())
    monkeypatch.setattr(sys, "path", list(sys.path))
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    """As a new process: nothing of the package is imported, nothing is trusted."""
    extensions._trusted.clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "mine"]:
        del sys.modules[name]


def imported() -> list[str]:
    return [name for name in sys.modules if name.startswith("mine.")]


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 2
    return capsys.readouterr().err


def attempts(path: str) -> list[str]:
    return [one.record.name for one in Run.open(Path(path)).attempts.all()]


@pytest.mark.parametrize("name", ["attacks", "methods", "threats"])
def test_an_addition_takes_one_file_of_at_most_25_lines(name: str) -> None:
    addition = FILES[name].split("\nlonger =")[0]
    assert len(addition.strip().splitlines()) <= 25


def test_a_method_and_a_recipe_are_trained_resumed_and_shown(
    here: Path, capsys: pytest.CaptureFixture[str], mnist_train: Images, mnist_test: Images
) -> None:
    main([*TRAIN, "--epochs", "2"])
    stored = json.loads((here / "runs/mine/run.json").read_text())["recipe"]["method"]
    assert stored == {"kind": "mine.methods:Smoothed", "smoothing": 0.2}
    weights = Run.open(here / "runs/mine").weights
    (here / "runs/mine/trained.json").unlink()  # as after a kill in the last moment
    forget()
    main([*TRAIN, "--epochs", "2"])  # what is typed is trusted again
    assert Run.open(here / "runs/mine").weights == weights
    forget()
    main(["attack", "mine", "--suite", "demo", "--only", "apgd*", "--threat", "Linf:0.1", *ATTACK])
    main(["evaluate", "mine"])
    main(["report", "mine"])
    main(["show", "mine"])
    main(["runs"])
    assert imported() == []  # neither attacking nor showing needs the method
    out = capsys.readouterr().out
    assert "Smoothed" in out
    assert "method.smoothing" in out


def test_an_attack_goes_through_the_command_line(
    here: Path, capsys: pytest.CaptureFixture[str], mnist_train: Images, mnist_test: Images
) -> None:
    main(["train", "mnist-normal-demo", "--images", "700", "--epochs", "1", "--run", "runs/a"])
    attack = ["attack", "a", "--threat", "Linf:0.3", *ATTACK]
    main([*attack, "--attack", "mine.attacks:Corners"])
    main([*attack, "--attack", "mine.attacks:longer", "--attack", "mine.attacks:greyer"])
    assert sorted(attempts("runs/a")) == ["Corners", "Corners", "greyer"]
    capsys.readouterr()
    main([*attack, "--attack", "mine.attacks:longer"])
    assert "0 blocks computed" in capsys.readouterr().out
    about = next(iter(Run.open(here / "runs/a").attempts.all()))
    assert label(about.record.condition.threat) == "Linf:0.3"
    shutil.rmtree(here / "mine")  # what it needed to be computed is not needed to be shown
    forget()
    main(["evaluate", "a", "--table", "attacks"])
    assert "| Corners" in capsys.readouterr().out
    main(["report", "a"])
    main(["export", "a", "--threat", "Linf:0.3", "--out", "worst.npz"])
    assert imported() == []


def test_a_threat_goes_through_the_command_line(
    here: Path, capsys: pytest.CaptureFixture[str], mnist_train: Images, mnist_test: Images
) -> None:
    main(["train", "mnist-normal-demo", "--images", "700", "--epochs", "1", "--run", "runs/a"])
    for size in ("2", "4"):
        threat = f"mine.threats:TopRows:{size}"
        main(
            [
                "attack",
                "a",
                "--suite",
                "demo",
                "--only",
                "*pgd-conf zero*",
                "--threat",
                threat,
                *ATTACK,
            ]
        )
    shown = {}
    for trusting in (False, True):  # a name that is not imported is shown all the same
        forget()
        capsys.readouterr()
        main(["evaluate", "a", "--table", "main", *["--trust"] * trusting])
        shown[trusting] = capsys.readouterr().out
        assert "mine.threats:TopRows:4" in shown[trusting]
        assert bool(imported()) == trusting
    main(["report", "a", "--trust"])


def test_a_network_is_trained_and_needs_trust_afterwards(
    here: Path, capsys: pytest.CaptureFixture[str], mnist_train: Images, mnist_test: Images
) -> None:
    train = ["train", "mnist-normal-demo", "--model", "mine.nets:tiny", "--images", "700"]
    main([*train, "--epochs", "1", "--run", "runs/net"])
    forget()
    attack = ["attack", "net", "--suite", "demo", "--only", "apgd*", "--threat", "Linf:0.1"]
    message = fails(capsys, *attack, *ATTACK)
    assert "mine.nets:tiny" in message
    assert str(here / "mine" / "nets.py") in message
    assert "--trust" in message
    assert imported() == []
    assert attempts("runs/net") == []
    main([*attack, *ATTACK, "--trust"])
    forget()
    main(["evaluate", "net"])  # the clean answers were stored when it was attacked
    assert imported() == []


def test_in_memory_an_attack_and_cases_are_full_citizens() -> None:
    sys.modules.pop("mine", None)
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(FILES["attacks"], namespace)  # as in a notebook: it could not be stored
    corners = namespace["longer"]
    assert isinstance(corners, ccat.Attack)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    x = torch.rand(60, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    y = model(x).argmax(1)
    threat = ccat.Linf(0.3)
    options = {"calibration": (x, y), "tpr": 0.9}
    one = ccat.evaluate(model, x, y, suite=None, attacks=[corners], threats=[threat], **options)  # type: ignore[arg-type]
    other = ccat.evaluate(model, x, y, suite=[Case("Corners", threat, corners)], **options)  # type: ignore[arg-type]
    assert "Linf:0.3" in one.table()
    assert one.adversarial["Linf:0.3"].equal(other.adversarial["Linf:0.3"])
    assert not one.adversarial["Linf:0.3"].equal(x)


BAD = {
    "NotFrozen": "@dataclass\nclass NotFrozen(ccat.Attack):\n    n: int = 1",
    "NotADataclass": "class NotADataclass(ccat.Attack):\n    pass",
    "Unstorable": "@dataclass(frozen=True)\nclass Unstorable(ccat.Attack):\n"
    "    net: object = field(default_factory=lambda: nn.Linear(1, 1))",
    "Needs": "@dataclass(frozen=True)\nclass Needs(ccat.Attack):\n    n: int",
    "Half": "@dataclass(frozen=True)\nclass Half:\n    n: int = 1",
    "Wrong": "@dataclass(frozen=True)\nclass Wrong(ccat.Attack):\n    n: int = 1",
    "Outside": "@dataclass(frozen=True)\nclass Outside(ccat.Attack):\n    n: int = 1",
}
CALLS = {
    "Wrong": "        return problem.x",
    "Outside": "        return ccat.Found(1 - problem.x, torch.zeros(len(problem.x)))",
}
SAYS = {
    "NotFrozen": ("NotFrozen", "frozen"),
    "NotADataclass": ("mine.bad:NotADataclass", "frozen dataclass"),
    "Unstorable": ("Unstorable.net", "Linear", "cannot be stored"),
    "Needs": ("mine.bad:Needs", "arguments", "defaults"),
    "Half": ("mine.bad:Half", "supports", "ccat.Attack"),
    "Wrong": ("Wrong must return a Found", "Tensor"),
    "Outside": ("Outside", "outside of Linf:0.1"),
    "Missing": ("mine.bad:Missing", "cannot be imported"),
}


@pytest.mark.parametrize("name", SAYS)
def test_what_a_class_lacks_is_said_by_name_and_nothing_is_stored(
    name: str,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    mnist_train: Images,
    mnist_test: Images,
) -> None:
    head = "import torch\nfrom torch import nn\nimport ccat\n"
    head += "from dataclasses import dataclass, field\n\n"
    call = CALLS.get(name, "        return problem.evaluate(problem.x)")
    methods = f"\n\n    def __call__(self, problem, generator):\n{call}\n\n"
    methods += "    def cost(self, shape):\n        return ccat.Counts(1)\n"
    (here / "mine/bad.py").write_text(head + BAD.get(name, "") + methods * (name in BAD))
    main(["train", "mnist-normal-demo", "--images", "700", "--epochs", "1", "--run", "runs/a"])
    capsys.readouterr()
    attack = ["attack", "a", "--attack", f"mine.bad:{name}", "--threat", "Linf:0.1", *ATTACK]
    message = fails(capsys, *attack)
    for part in SAYS[name]:
        assert part in message
    assert len(message.strip().splitlines()) == 1
    assert attempts("runs/a") == []


def test_a_method_that_returns_no_loss_is_named(
    here: Path, capsys: pytest.CaptureFixture[str], mnist_train: Images
) -> None:
    text = FILES["methods"].replace("label_smoothing=self.smoothing)", "reduction='none')")
    (here / "mine/methods.py").write_text(text)
    message = fails(capsys, *TRAIN)
    assert "Smoothed must return" in message
    assert not (here / "runs/mine/model.safetensors").exists()


@pytest.mark.parametrize("name", ["mine.nothing:x", "mine.recipes:nothing", "json:dumps"])
def test_a_recipe_that_is_none_is_refused(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert name in fails(capsys, "train", "--recipe", name)
    assert not (here / "runs").exists()


def test_a_run_of_an_older_schema_says_which_version_made_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "runs/old").mkdir(parents=True)
    old = {"schema": 1, "versions": {"ccat": "0.0.9"}, "recipe": {}}
    (here / "runs/old/run.json").write_text(json.dumps(old))
    message = fails(capsys, "evaluate", "old")
    assert "0.0.9" in message
    assert "schema 1" in message
    assert "ccat train" in message


def test_a_stored_name_never_runs_code_by_itself(
    here: Path, capsys: pytest.CaptureFixture[str], mnist_train: Images, mnist_test: Images
) -> None:
    train = ["train", "mnist-normal-demo", "--model", "mine.nets:tiny", "--images", "700"]
    main([*train, "--epochs", "1", "--run", "runs/a"])
    file = here / "runs/a/run.json"
    about = sealed.unseal(json.loads(file.read_text()))
    (here / "mine/payload.py").write_text("raise SystemExit('it ran')")
    about["recipe"]["method"] = {"kind": "mine.payload:Method"}
    for name in ("mine.nets:tiny", "os:abort"):
        about["recipe"]["model"] = name
        file.write_text(json.dumps(sealed.seal(about)))
        trained = sealed.unseal(json.loads((here / "runs/a/trained.json").read_text()))
        trained["recipe"] = about["recipe"]
        (here / "runs/a/trained.json").write_text(json.dumps(sealed.seal(trained)))
        for command in (["evaluate", "a"], ["corrupt", "a"], ["attack", "a", *ATTACK]):
            forget()
            assert "mine.nets:tiny" in fails(capsys, *command)
            assert imported() == []
    main(["show", "a"])
    main(["runs"])
    assert imported() == []
    assert isinstance(Run.open(here / "runs/a").recipe.method, codec.Unresolved)
