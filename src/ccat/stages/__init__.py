"""Stages: each reads a run directory, computes what is missing, and writes it there."""

from ccat.stages.analyse import analyse, analysis_of
from ccat.stages.attack import attack, foresee
from ccat.stages.bring import bring
from ccat.stages.corrupt import contact_sheet, corrupt
from ccat.stages.detect import derive
from ccat.stages.examples import export, pictures, score
from ccat.stages.measure import measure
from ccat.stages.ranks import joined
from ccat.stages.shared import Progress, StageError
from ccat.stages.train import begin, help_train, train

__all__ = [
    "Progress",
    "StageError",
    "analyse",
    "analysis_of",
    "attack",
    "begin",
    "bring",
    "contact_sheet",
    "corrupt",
    "derive",
    "export",
    "foresee",
    "help_train",
    "joined",
    "measure",
    "pictures",
    "score",
    "train",
]
