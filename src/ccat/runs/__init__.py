"""Runs: one directory per model, and the only room that knows file names.

run = Run.open(Path("runs/mnist-ccat-small"))
run.training.model(), run.attempts.all(), run.answers.clean(data)

Names are imported when they are first used, so that `ccat runs` lists runs without torch;
__init__.pyi lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
