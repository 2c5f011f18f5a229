"""What rejects: the confidence of the answer, or detectors of adversarial examples on any model.

    Confidence()                            # reject answers with max_k f_k below τ
    Detection("mahalanobis")                # reject what a detector calls unusual
    Consistency()                           # reject where a small step makes the model unsure

A rejection is a value that a run is made with, not a part of its recipe. Its judges are functions
from images (and the probabilities the model gave them) to scores. `Rejecting` is a model together
with what rejects, a threshold (`Calibration`) and the names of its classes: what is put to use.
`pack` writes it to a file that runs without ccat.
"""

from ccat import codec
from ccat.rejection.aware import Aware, Knowable
from ccat.rejection.calibration import Calibration
from ccat.rejection.consistency import CONSISTENCY, Consistency
from ccat.rejection.detection import Detection
from ccat.rejection.detector import DETECTORS, Detector, fit
from ccat.rejection.export import PackError, pack
from ccat.rejection.features import features, usual_layers
from ccat.rejection.protocol import CONFIDENCE, Confidence, Judge, OwnScore, Rejection
from ccat.rejection.rejecting import REJECTED, Decision, Rejecting, load_classifier
from ccat.rejection.statistics import LocalDimension, Mahalanobis

REJECTIONS: dict[str, type] = codec.register(
    Rejection,
    {"Confidence": Confidence, "Detection": Detection, "Consistency": Consistency},
)

__all__ = [
    "CONFIDENCE",
    "CONSISTENCY",
    "DETECTORS",
    "REJECTED",
    "REJECTIONS",
    "Aware",
    "Calibration",
    "Confidence",
    "Consistency",
    "Decision",
    "Detection",
    "Detector",
    "Judge",
    "Knowable",
    "LocalDimension",
    "Mahalanobis",
    "OwnScore",
    "PackError",
    "Rejecting",
    "Rejection",
    "features",
    "fit",
    "load_classifier",
    "pack",
    "usual_layers",
]
