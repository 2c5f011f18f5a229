"""Fields of a recipe from a TOML file."""

from pathlib import Path

import pytest
from runs import says

from ccat.cli.config import read_config


def written(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text)
    return path


def test_fields_are_named_by_their_tables(tmp_path: Path) -> None:
    text = """
recipe = "mnist-ccat-small"
epochs = 3
[method]
rho = 6.5
threat.epsilon = "8/255"
[method.attack]
backtracking = "none"
"""
    assert read_config(written(tmp_path, text)) == (
        "mnist-ccat-small",
        {
            "epochs": "3",
            "method.rho": "6.5",
            "method.threat.epsilon": "8/255",
            "method.attack.backtracking": "none",
        },
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epochs = ", "is not TOML"),
        ("model = 'mypackage.nets:tiny'", "model names code, mypackage.nets:tiny"),
        ("recipe = 'mypackage.recipes:mine'", "recipe names code"),
        ("epochs = [3]", "epochs is a list; a field is a number or a text"),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_config(written(tmp_path, text))


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_config(tmp_path / "none.toml")


def test_what_is_typed_counts_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rate that no recipe takes shows which of both is read."""
    path = written(tmp_path, "recipe = 'mnist-normal-small'\nrate = -1\n")
    run = ["--run", str(tmp_path / "run")]
    said = says(capsys, "train", "--config", str(path), *run, error=True)
    assert "rate must be" in said
    assert "-1" in said
    said = says(capsys, "train", "--config", str(path), "--rate", "-2", *run, error=True)
    assert "-2" in said
    assert not (tmp_path / "run").exists()
