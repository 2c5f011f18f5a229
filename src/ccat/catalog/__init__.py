"""The catalog: names and the configurations they stand for.

    RECIPES["mnist-ccat-small"], SUITES["standard"]

Adding a recipe is a line in recipes.py, adding a suite an entry in suites.py.
"""

from ccat.catalog.recipes import RECIPES
from ccat.catalog.suites import SUITES, Suite, select

__all__ = ["RECIPES", "SUITES", "Suite", "select"]
