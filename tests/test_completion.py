"""`ccat completion`: the scripts are asked for completions in real shells."""

import shutil
import subprocess
from pathlib import Path

import pytest
from runs import says

from ccat.cli.commands import COMMANDS

ASK_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
[[ $(complete -p ccat) =~ -F\\ ([^ ]+) ]] && "${BASH_REMATCH[1]}" ccat "${@: -1}" "${@: -2:1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
ASK_FISH = 'source $argv[1]; complete --do-complete "$argv[2]"'
ASKED = [
    ("ccat ", set(COMMANDS)),
    ("ccat att", {"attack"}),
    ("ccat attack --su", {"--suite"}),
    ("ccat attack --trust --engine ", {"local", "ray"}),
    ("ccat evaluate first --format ", {"md", "csv", "tex", "json"}),
    ("ccat evaluate first second --ta", {"--table", "--tau"}),
    ("ccat data ", {"list", "get", "make"}),
    ("ccat show runs/so", {"runs/some"}),
    ("ccat import new --weights wei", {"weights.pt"}),
    ("ccat verify some --sample ", set[str]()),  # a number
]


@pytest.fixture
def scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "some").mkdir(parents=True)
    (tmp_path / "weights.pt").touch()
    for shell in ("bash", "zsh", "fish"):
        (tmp_path / f"ccat.{shell}").write_text(says(capsys, "completion", shell))
    return tmp_path


def shell(name: str, *arguments: str | Path) -> set[str]:
    """Run a shell, or skip the test where it is not installed, and return the lines it prints."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([name, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return set(done.stdout.split("\n")) - {""}


def test_bash_completes_commands_options_choices_and_paths(scripts: Path) -> None:
    for line, expected in ASKED:
        found = shell("bash", "-c", ASK_BASH, "bash", scripts / "ccat.bash", *line.split(" "))
        assert {word for word in found if not word.startswith("-") or "-" in line} == expected, line


def test_fish_completes_them_as_well(scripts: Path) -> None:
    for line, expected in ASKED:
        found = shell("fish", "--no-config", "-c", ASK_FISH, scripts / "ccat.fish", line)
        words = {word.split("\t")[0].rstrip("/") for word in found}
        assert words == expected, line


def test_zsh_reads_its_script(scripts: Path) -> None:
    shell("zsh", "--no-exec", scripts / "ccat.zsh")
    assert "attack" in (scripts / "ccat.zsh").read_text()
