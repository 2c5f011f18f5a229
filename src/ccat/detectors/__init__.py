"""Detectors of adversarial examples, on any model: scores that decide what is rejected, in place of the confidence."""

from ccat.detectors.detector import KINDS, Detector, aware, detector_of, fit
from ccat.detectors.features import features, usual_layers
from ccat.detectors.statistics import LocalDimension, Mahalanobis

__all__ = ["KINDS", "Detector", "LocalDimension", "Mahalanobis", "aware", "detector_of", "features", "fit", "usual_layers"]
