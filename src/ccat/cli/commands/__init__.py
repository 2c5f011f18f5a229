"""The commands of `ccat`: a file per command with `run(options)`, imported when it is called.

Its options have a file of the same name in `ccat.cli.options`.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """A command: the name of its two files, and what `ccat --help` says of it."""

    file: str
    help: str


COMMANDS: dict[str, Command] = {
    "demo": Command("demo", "train three small models side by side, attack them, print the table"),
    "recipes": Command("recipes", "list the recipes, or all fields of one"),
    "suites": Command("suites", "list the suites of attacks, or the cases of one"),
    "data": Command("data", "list the data sets, get and check one, or make a corrupted one"),
    "train": Command(
        "train", "train a model by a recipe, with any of its fields set: --epochs 3 --method.rho 6"
    ),
    "import": Command("import_model", "make a run of a model that was trained elsewhere"),
    "attack": Command(
        "attack", "attack a trained run, or a model of your own, and store the outcome"
    ),
    "check": Command(
        "check", "plant errors in a run's model, and see how many of them a suite of attacks finds"
    ),
    "certify": Command(
        "certify", "bound a run's errors from above, for every image within a threat that is a box"
    ),
    "benchmark": Command(
        "benchmark", "attack a model, bound it from above, and write a card that can be verified"
    ),
    "detect": Command("detect", "make a run that rejects by a detector, and attack it"),
    "corrupt": Command(
        "corrupt",
        "measure a run on corrupted test images: MNIST-C, CIFAR-10-C, published or generated",
    ),
    "pack": Command(
        "pack", "write a classifier that may abstain to one ONNX or PyTorch file, to deploy it"
    ),
    "export": Command("export", "write the worst adversarial examples found"),
    "score": Command("score", "score adversarial examples computed elsewhere as one more attempt"),
    "calibrate": Command(
        "calibrate", "choose a run's threshold: by a true positive rate, or by a promised risk"
    ),
    "predict": Command("predict", "label pictures, or reject them, one line for each"),
    "monitor": Command(
        "monitor", "watch the rejection rate of a classifier in use, and raise an alarm"
    ),
    "zoo": Command("zoo", "list the models that come with ccat, or tell what is known of one"),
    "evaluate": Command(
        "evaluate", "tabulate errors of runs, clean and under attack, with rejection"
    ),
    "compare": Command(
        "compare", "compare runs on the same images; seeds of one recipe are taken together"
    ),
    "report": Command("report", "write a page to look at, and tables and figures for a paper"),
    "analyse": Command(
        "analyse", "look at how attacks climb, and what runs say beyond ε and between images"
    ),
    "proposition": Command(
        "proposition",
        "solve the paper's Proposition 1 numerically, and draw where its condition suffices",
    ),
    "runs": Command("runs", "list the runs of a directory"),
    "show": Command("show", "tell what a run is and holds"),
    "verify": Command(
        "verify", "check every file of a run, and score a sample of its examples again"
    ),
    "prune": Command(
        "prune",
        "move checkpoints, unfinished files and results of other weights to the run's trash",
    ),
    "schema": Command(
        "schema", "print the JSON Schema of what `ccat evaluate --format json` prints"
    ),
    "completion": Command(
        "completion", "print a script with which a shell completes commands and options"
    ),
}
