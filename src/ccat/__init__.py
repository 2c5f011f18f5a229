"""Image classifiers that may say "I don't know": train, attack, measure what gets through.

Confidence-Calibrated Adversarial Training (Stutz, Hein & Schiele, ICML 2020) on PyTorch.

    x_adv = ccat.attack(model, x, y, ccat.Linf(0.3))
    print(ccat.evaluate(model, x, y, threats=[ccat.Linf(0.3)]).table())

Names are grouped by room: what an attacker may do (threats), wants (objectives) and does (attacks);
models, data and training; what rejects; and what is measured.
"""

import logging
from importlib.metadata import version

import lazy_loader

# Importing torch takes seconds, so names are imported when they are first used; __init__.pyi lists
# them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = version("ccat-torch")
logging.getLogger(__name__).addHandler(logging.NullHandler())  # `ccat -v` shows what is logged
