"""A classifier that may abstain: one module that decides.

Whether the confidence p of an answer reaches τ is decided in log-odds, log p/(1−p) against
log τ/(1−τ), in float64: confidences near 1, which float32 rounds to 1, are still told apart. An
answer that lies below τ by no more than roundings is accepted, so that a confidence of exactly τ is
accepted by every runtime, whichever way it rounds exponentials and logarithms.

Shapes: images (N, C, H, W) in [0,1] or as bytes, logits (N, K), everything decided (N,).
"""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccat import codec, sealed
from ccat.checks import require_number
from ccat.data.images import to_floats
from ccat.data.own import MOST_SIZE
from ccat.evaluation.watch import Calibrated, Watched, watch
from ccat.files import write_whole
from ccat.models.errors import ModelFileError
from ccat.models.files import built, described, read_weights
from ccat.rejection.arrays import require_images, to_images
from ccat.rejection.calibration import ROUNDINGS, Calibration
from ccat.rejection.protocol import Confidence, Judge, Rejection, Tensors

SCHEMA = 1  # of the part of a file that makes a model a classifier
REJECTED = -1
REJECTION = "rejected"  # what this label is called
_BATCH = 250
_MODEL, _JUDGE = "model.", "judge."


class Decision(NamedTuple):
    """What a classifier decides on images, (N,) each.

    `labels` is −1 where the answer is rejected; `confidence` is that of the answer in any case.
    """

    labels: Tensor
    confidence: Tensor
    accepted: Tensor


class Rejecting(nn.Module):
    """A classifier that may abstain: a model, what rejects its answers, a threshold, and names.

        clf = ccat.load("runs/photos")
        labels, confidence, accepted = clf(images)  # labels are −1 where the answer is rejected

    Args:
        model: Maps images (N, C, H, W) in [0,1] to logits (N, K).
        calibration: The threshold τ, and how it was chosen.
        shape: The shape (C, H, W) of the images that the model takes.
        classes: The names of the K classes, in the order of their labels.
        rejection: What rejects: by default answers of low confidence.
        fitted: The tensors of the judge that decides, if the rejection was fitted.

    Raises:
        ValueError: If these do not fit together; the message says what does not.
    """

    def __init__(
        self,
        model: nn.Module,
        calibration: Calibration,
        shape: Sequence[int],
        classes: Sequence[str],
        *,
        rejection: Rejection | None = None,
        fitted: Mapping[str, Tensors] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.calibration = calibration
        self.shape = tuple(shape)
        self.classes = tuple(classes)
        self.rejection = rejection or Confidence()
        self.fitted = dict(fitted or {})
        self._judges: dict[torch.device, Judge] = {}
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise ValueError(f"images are of a shape (C, H, W), not {self.shape}")
        if REJECTION in self.classes:
            raise ValueError(f"a class is called {REJECTION!r}, as answers are that are rejected")
        if isinstance(self.rejection, Confidence):
            require_number("tau", self.tau, 0, 1, low_too=True, high_too=True)
        self.eval()

    @property
    def tau(self) -> float:
        """The threshold: an answer is accepted if its confidence, or its score, reaches it."""
        return self.calibration.tau

    def at(self, calibration: Calibration) -> "Rejecting":
        """Return the same classifier with another threshold; both share the model."""
        parts = self.model, calibration, self.shape, self.classes
        return Rejecting(*parts, rejection=self.rejection, fitted=self.fitted)

    def forward(self, images: Tensor, tau: Tensor | None = None) -> Decision:
        """Decide on images (N, C, H, W), as bytes or as floats in [0,1].

        Args:
            images: Of the shape that the classifier takes. Whether floats lie in [0,1] is checked
                unless the classifier is compiled.
            tau: Another threshold than its own, for this call.
        """
        images = self._floats(require_images(images, self.shape))
        logits = self.model(images)
        odds = log_odds(logits)
        labels = logits.argmax(1)
        accepted = self._scores(images, logits, odds) >= self._cut(odds, tau)
        return Decision(torch.where(accepted, labels, REJECTED), odds.sigmoid(), accepted)

    def scores(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return answers before rejection, and the scores that are compared with the threshold.

        The score is the log-odds of the confidence, or what a detector gives; both (N,) are on the
        CPU, computed in batches.
        """
        labels, scores = [], []
        for part in torch.split(require_images(images, self.shape), _BATCH):
            with torch.no_grad():
                x = self._floats(part.to(self.device))
                logits = self.model(x)
                scores.append(self._scores(x, logits, log_odds(logits)).cpu())
                labels.append(logits.argmax(1).cpu())
        return torch.cat(labels), torch.cat(scores)

    def predict(self, images: Any) -> NDArray[np.int64]:
        """Return the label of each image of an array, −1 where the answer is rejected.

        Args:
            images: Bytes, or floats in [0,1], of shape (N, C, H, W), (N, H, W, C) or (N, H, W).
        """
        with torch.no_grad():
            parts = [self(part.to(self.device)).labels.cpu() for part in self._parts(images)]
        return torch.cat(parts).numpy()

    def predict_proba(self, images: Any) -> NDArray[np.float64]:
        """Return the model's probabilities (N, K) of an array of images, as `predict` takes it."""
        with torch.no_grad():
            parts = [
                self.model(self._floats(part.to(self.device))).cpu().double().softmax(1).numpy()
                for part in self._parts(images)
            ]
        return np.concatenate(parts)

    def monitor(self, accepted: Any, delta: float = 0.01) -> Watched:
        """Return the rejection rate over a stream of decisions, with an alarm if it has changed.

        Args:
            accepted: Whether each image of the stream was accepted, (N,), in the order of time.
            delta: The probability of a false alarm, over all time.

        Raises:
            ValueError: If the threshold was given, so that no rate is known for it, or the stream
                does not consist of booleans.
        """
        if not self.calibration.images:
            raise ValueError(
                "no rejection rate is known for a threshold that was given: choose it with "
                "`ccat calibrate`"
            )
        rate = Calibrated(self.calibration.rejected, self.calibration.images)
        stream = np.asarray(accepted.cpu() if isinstance(accepted, Tensor) else accepted)
        if stream.dtype != np.bool_ and len(stream):
            raise ValueError(
                f"monitor takes whether each image was accepted, as booleans, not {stream.dtype}"
            )
        return watch(~stream.astype(np.bool_), rate, delta)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one safetensors file, which `ccat.load` reads, whole or not at all.

        Raises:
            ValueError: If the model was not made by ccat, which then could not build it again.
        """
        weights, about = described(self.model)
        tensors = {_MODEL + name: value for name, value in weights.items()}
        for judge, fitted in self.fitted.items():
            tensors |= {f"{_JUDGE}{judge}/{name}": value for name, value in fitted.items()}
        classifier = {
            "schema": SCHEMA,
            "calibration": codec.encode(self.calibration),
            "shape": self.shape,
            "classes": self.classes,
            "rejection": codec.encode(self.rejection),
        }
        write_whole(Path(path), sealed.pack(tensors, {**about, "classifier": classifier}))

    def name(self, label: int) -> str:
        """Return what a label is called: the name of its class, or "rejected"."""
        return REJECTION if label == REJECTED else self.classes[label]

    def extra_repr(self) -> str:
        """Return what `repr` says besides the model: classes, shape, and threshold."""
        shape = "×".join(map(str, self.shape))
        return f"{len(self.classes)} classes, images {shape}, {self.calibration}"

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next((one.device for one in self.model.parameters()), torch.device("cpu"))

    def _parts(self, images: Any) -> tuple[Tensor, ...]:
        return torch.split(to_images(images, self.shape), _BATCH)

    def _cut(self, odds: Tensor, tau: Tensor | None) -> Tensor:
        """Return the threshold on the scale of the scores."""
        given = torch.as_tensor(self.tau if tau is None else tau, dtype=odds.dtype).to(odds.device)
        if not isinstance(self.rejection, Confidence):
            return given
        if tau is not None and not torch.compiler.is_compiling():
            for one in given.flatten().tolist():
                require_number("tau", one, 0, 1, low_too=True, high_too=True)
        return given.logit() - ROUNDINGS

    def _scores(self, images: Tensor, logits: Tensor, odds: Tensor) -> Tensor:
        if isinstance(self.rejection, Confidence):
            return odds
        if images.device not in self._judges:
            blank = images.new_zeros(1, *self.shape)
            (judge,) = self.rejection.load(self.model, self.fitted, blank).values()
            self._judges[images.device] = judge
        return self._judges[images.device](images, logits.softmax(1).cpu()).to(odds)

    def _floats(self, images: Tensor) -> Tensor:
        """Return images as the model takes them: in [0,1], and of the precision of its weights."""
        weights = [one for one in self.model.parameters() if one.is_floating_point()]
        return to_floats(images).to(weights[0].dtype if weights else torch.float32)


def log_odds(logits: Tensor) -> Tensor:
    """Return log p/(1−p) of the largest probability p, (N,), in float64 where there is one.

    This is −log Σ_{j≠k} e^{z_j − z_k} for the answer k. Differences of float32 logits are exact, so
    that large ones cost no digits, and other runtimes come to the same up to 1e-13.
    """
    if logits.device.type != "mps":  # which has no float64
        logits = logits.double()
    answer = logits.argmax(1, keepdim=True)
    others = (logits - logits.gather(1, answer)).scatter(1, answer, -math.inf)
    return -others.logsumexp(1)


def load_classifier(path: str | os.PathLike[str], factory: str | None = None) -> Rejecting:
    """Load a classifier as `Rejecting.save` stored it, on the CPU.

    Args:
        path: The file.
        factory: The `package.module:factory` that the file may name for its model, if trusted.

    Raises:
        ModelFileError: If the file is missing, damaged, of another version, or no classifier.
        UntrustedError: If nobody has trusted the factory.
    """
    about, tensors = read_weights(path)
    said = about.get("classifier")
    if not isinstance(said, dict):
        raise ModelFileError(f"{path} holds a model without a threshold: ccat.load_model loads it")
    if said.get("schema") != SCHEMA:
        raise ModelFileError(
            f"{path} was written by another version of ccat (classifier schema "
            f"{said.get('schema')}, this version reads {SCHEMA}): save the classifier again"
        )
    weights = {n.removeprefix(_MODEL): v for n, v in tensors.items() if n.startswith(_MODEL)}
    model = built(path, about, weights, factory)
    fitted: dict[str, Tensors] = {}
    for name, value in tensors.items():
        if name.startswith(_JUDGE):
            judge, _, part = name.removeprefix(_JUDGE).rpartition("/")
            fitted.setdefault(judge, {})[part] = value
    try:
        calibration = codec.decode(said["calibration"], Calibration)
        rejection = codec.decode(said["rejection"], Rejection)
        shape, classes = tuple(map(int, said["shape"])), tuple(map(str, said["classes"]))
        clf = Rejecting(model, calibration, shape, classes, rejection=rejection, fitted=fitted)
        require_fit(clf)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as wrong:
        why = str(wrong).partition("\n")[0]
        raise ModelFileError(f"{path} holds a classifier that cannot decide ({why})") from wrong
    return clf


def require_fit(clf: Rejecting) -> None:
    """Decide on a blank image, and raise an error if the parts of a classifier do not fit."""
    if math.prod(clf.shape) > 3 * MOST_SIZE**2:
        raise ValueError(f"images of shape {clf.shape} are too large")
    blank = torch.zeros(1, *clf.shape)
    answers = clf.predict_proba(blank).shape[1]
    if answers != len(clf.classes):
        raise ValueError(f"the model tells {answers} classes apart, not {len(clf.classes)}")
    clf.scores(blank)
