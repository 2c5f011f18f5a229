import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import ccat
from ccat.cli import main

ROOT = Path(__file__).parents[1]


def test_the_wheel_imports_in_a_clean_environment(tmp_path: Path) -> None:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "build",
            "--wheel",
            "--no-isolation",
            "--outdir",
            tmp_path / "dist",
            ROOT,
        ],
        check=True,
        capture_output=True,
    )
    (wheel,) = (tmp_path / "dist").glob("ccat_torch-*.whl")
    venv.create(tmp_path / "clean")
    python = tmp_path / "clean" / "bin" / "python"
    site = Path(
        subprocess.run(
            [python, "-c", "import site; print(site.getsitepackages()[0])"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    )
    zipfile.ZipFile(wheel).extractall(site)
    sources = [file for file in (ROOT / "src").rglob("*.*") if "__pycache__" not in file.parts]
    names = {str(file.relative_to(ROOT / "src")) for file in sources if file.is_file()}
    assert names <= set(zipfile.ZipFile(wheel).namelist()), "also what is not Python"
    # the libraries it needs are borrowed; a .pth file there is not followed, so the checkout stays
    # out of sight
    (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"])
    code = (
        "import ccat, importlib.resources as r; "
        "print(ccat.__file__, ccat.__version__, r.files(ccat).joinpath('py.typed').is_file())"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-W", "error", "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    file, number, typed = done.stdout.split()
    assert Path(file).is_relative_to(tmp_path)
    assert number == version("ccat-torch")
    assert typed == "True"


def test_the_command_tells_its_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ccat", "--version"], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == f"ccat {ccat.__version__}"


def test_the_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert "usage: ccat" in capsys.readouterr().out


def test_public_names_exist_once() -> None:
    assert len(set(ccat.__all__)) == len(ccat.__all__)
    for name in ccat.__all__:
        assert hasattr(ccat, name)
