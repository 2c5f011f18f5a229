"""What makes a run's model a classifier to be used: the file classifier.json.

It holds the shape of the images, the names of the classes and thresholds, so that a run can decide
on pictures without the data that it was trained on.
"""

from dataclasses import dataclass

from ccat import codec
from ccat.rejection import Calibration
from ccat.runs.folder import Folder

CLASSIFIER = "classifier.json"
_ADVICE = "delete it, `ccat calibrate` makes it anew"


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of a model, and what has to be known of its images.

    Attributes:
        shape: The shape (C, H, W) of the images.
        classes: The names of the classes, in the order of their labels.
        chosen: The threshold that decides.
        others: Thresholds for other true positive rates.
        elsewhere: True if other images than the run's calibration images chose them.
    """

    shape: tuple[int, ...]
    classes: tuple[str, ...]
    chosen: Calibration
    others: tuple[Calibration, ...] = ()
    elsewhere: bool = False

    def at(self, tpr: float) -> Calibration | None:
        """Return the stored threshold for a true positive rate, None if there is none."""
        every = (self.chosen, *self.others)
        found = (one for one in every if one.chosen == "tpr" and one.level == tpr)
        return next(found, None)


@dataclass(frozen=True)
class ClassifierFile:
    """The thresholds that were chosen for certain weights."""

    folder: Folder
    weights: str

    def read(self) -> Thresholds | None:
        """The stored thresholds; None if there are none of these weights.

        Raises:
            RunError: If the file is damaged.
        """
        stored = self.folder.json(CLASSIFIER, _ADVICE)
        if stored is None or stored.get("weights") != self.weights:
            return None
        with self.folder.reading(CLASSIFIER, _ADVICE):
            found = codec.decode(stored["thresholds"], Thresholds)
            if not isinstance(found, Thresholds):
                raise ValueError("it holds no thresholds")
            return found

    def save(self, thresholds: Thresholds) -> None:
        """Store thresholds in place of those there are."""
        plain = {"weights": self.weights, "thresholds": codec.encode(thresholds)}
        self.folder.write_json(CLASSIFIER, plain)
