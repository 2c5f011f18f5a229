"""Which files of a run a model of the zoo has."""

from ccat.runs.classifier import CLASSIFIER
from ccat.runs.directory import EVALUATION
from ccat.runs.folder import LOG, RUN_FILE, TRAINED
from ccat.runs.training import MODEL

FILES = (LOG, MODEL, TRAINED, CLASSIFIER, EVALUATION, RUN_FILE)
