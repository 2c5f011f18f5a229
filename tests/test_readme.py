import re
from pathlib import Path

import pytest

from ccat import Images

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_python_of_the_readme_runs(
    mnist_train: Images, mnist_test: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks are one program; an untrained model has no 100 correct images, so another threshold is asked of it."""
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
    exec(compile(code.replace("tpr=0.99", "tpr=0.9"), "README.md", "exec"), {})
    assert re.fullmatch(r"Err [\d.]+%, RErr [\d.]+%\naccepted: [\d.]+%\n", capsys.readouterr().out)
    assert (tmp_path / "model.safetensors").exists()
