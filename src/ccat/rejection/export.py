"""A classifier that may abstain as one file that runs without ccat: ONNX, or a PyTorch program.

    ccat.pack(ccat.load("runs/photos"), "photos.onnx")

Both kinds take `images` (N, C, H, W), float32 in [0,1], and return three arrays (N,):

    label           int64, −1 where the answer is rejected
    confidence      float64, of the answer in any case
    accepted        bool

Log-odds of the confidence and of τ are compared in float64, as `Rejecting` does. Where `Rejecting`
refuses images that leave [0,1], a program cannot: it rejects their answers. τ is stored exactly. In
ONNX it is an optional input `tau`; a PyTorch program, which has no optional inputs, has a buffer of
that name.
"""

import copy
import io
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from ccat.data.picture import RULE
from ccat.errors import CcatError
from ccat.files import write_whole
from ccat.models.files import weights_sha256
from ccat.rejection.protocol import Confidence
from ccat.rejection.rejecting import REJECTED, Decision, Rejecting

OUTPUTS = ("label", "confidence", "accepted")
ABOUT = "ccat.json"  # the extra file of a .pt2 that holds what is said about the classifier
MOST_BYTES = 2**31 - 2**20  # of weights in an ONNX file; the format allows 2 GiB in all
_ONNX_EXTRA = ("onnx", "onnxscript", "onnxruntime")
_TRIED = (1, 8)  # batches of noise that a packed classifier must answer as the original does
_CLOSE = 1e-3  # how far confidences may then lie apart

Answer = Callable[[Tensor, float], tuple[Tensor, Tensor]]  # (images, τ) -> labels, confidence


class PackError(CcatError):
    """A classifier that cannot be packed; the message says why and what to do."""


def pack(clf: Rejecting, path: str | os.PathLike[str]) -> None:
    """Write a classifier to one file that decides as it does, whole or not at all.

    Before it is written, what was made is run, and its answers on noise are compared with those of
    the classifier.

    Args:
        clf: A classifier of `ccat.load`, which rejects by confidence.
        path: Ends in .onnx, for onnxruntime and others (`pip install 'ccat-torch[onnx]'`), or in
            .pt2, for `torch.export.load`. A file that is there is replaced.

    Raises:
        PackError: If the ending is another one, the file cannot be written, ONNX is not installed,
            or the classifier cannot be exported.
    """
    path = Path(path)
    require_target(path)
    if not isinstance(clf.rejection, Confidence):
        raise PackError(
            f"this classifier rejects by a detector ({type(clf.rejection).__name__}), which reads "
            f"the model's layers and cannot be exported: pack one that rejects by confidence"
        )
    module, about = _Deciding(clf), described(clf)
    if path.suffix == ".onnx":
        content = _to_onnx(module, about)
        _require_same(clf, _onnx_answer(content))
    else:
        content = _to_pt2(module, about)
        _require_same(clf, _pt2_answer(content))
    try:
        write_whole(path, content)
    except OSError as refused:
        raise PackError(f"{path} cannot be written: {refused.strerror or refused}") from refused


def require_target(path: Path) -> None:
    """Raise a PackError unless a classifier can be packed into such a file here."""
    if path.suffix not in (".onnx", ".pt2"):
        raise PackError(
            f"a classifier is packed into a file that ends in .onnx or .pt2, not {str(path)!r}"
        )
    if path.is_dir():
        raise PackError(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise PackError(f"there is no directory {path.parent}: make it first")
    if not os.access(path.parent, os.W_OK):
        raise PackError(f"{path} cannot be written: {path.parent} may not be written to")
    if path.suffix == ".onnx" and (missing := [one for one in _ONNX_EXTRA if not find_spec(one)]):
        raise PackError(
            f"a .onnx file needs {', '.join(missing)}: pip install 'ccat-torch[onnx]'; a .pt2 file "
            f"needs PyTorch alone"
        )


def described(clf: Rejecting) -> dict[str, Any]:
    """Return what a packed classifier says about itself, as plain data."""
    return {
        "classes": list(clf.classes),
        "tau": clf.tau,
        "threshold": str(clf.calibration),
        "calibration": asdict(clf.calibration),
        "weights_sha256": weights_sha256(clf.model),
        "ccat_version": version("ccat-torch"),
        "image_shape": list(clf.shape),
        "resize": RULE,
    }


class _Deciding(nn.Module):
    """The computation of a packed classifier, on a private copy of its model."""

    tau: Tensor

    def __init__(self, clf: Rejecting) -> None:
        super().__init__()
        model = copy.deepcopy(clf.model).cpu().requires_grad_(False)
        self.classifier = Rejecting(model, clf.calibration, clf.shape, clf.classes)
        self.register_buffer("tau", torch.tensor(clf.tau, dtype=torch.float64))
        self.eval()

    def forward(self, images: Tensor, tau: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        decision: Decision = self.classifier(images, self.tau if tau is None else tau)
        inside = ((images >= 0) & (images <= 1)).flatten(1).all(1)
        accepted = decision.accepted & inside
        return torch.where(accepted, decision.labels, REJECTED), decision.confidence, accepted


def _to_pt2(module: _Deciding, about: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    extra = {ABOUT: json.dumps(about, ensure_ascii=False)}
    torch.export.save(_exported(module), buffer, extra_files=extra)
    return buffer.getvalue()


def _to_onnx(module: _Deciding, about: dict[str, Any]) -> bytes:
    from onnx import numpy_helper  # noqa: PLC0415 (optional)

    size = sum(one.nbytes for one in (*module.parameters(), *module.buffers()))
    if size > MOST_BYTES:
        raise PackError(
            f"the model's weights take {size / 2**30:.1f} GiB, and an ONNX file holds 2 GiB: pack "
            f"it into a .pt2 file"
        )
    program = _exported(module, module.tau)
    with _explained(module), _quiet():
        made = torch.onnx.export(
            program,
            dynamo=True,
            optimize=False,  # it drops small numbers, such as what is allowed for roundings
            verbose=False,
            input_names=["images", "tau"],
            output_names=OUTPUTS,
        )
        if made is None:
            raise RuntimeError("torch.onnx gave no program")
        proto = made.model_proto
    # What has both an input and an initial value of one name is an input that may be left out.
    proto.graph.initializer.append(numpy_helper.from_array(module.tau.numpy(), "tau"))
    for one in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        for dim in one.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = "N"
    for node in proto.graph.node:
        node.ClearField("metadata_props")  # where source files lie on this machine
        node.ClearField("doc_string")
    for name, value in about.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        proto.metadata_props.add(key=name, value=text)
    return bytes(proto.SerializeToString(deterministic=True))


def _exported(module: _Deciding, *tau: Tensor) -> ExportedProgram:
    """Return the program of a classifier for any number of images, without paths of this machine.

    Args:
        module: The computation.
        tau: Given if the threshold is to be an input.
    """
    images = torch.rand(2, *module.classifier.shape, generator=torch.Generator().manual_seed(0))
    shapes = [{0: Dim("N")}, *(None for _ in tau)]
    with _explained(module), _quiet(), torch.no_grad():
        program = torch.export.export(module, (images, *tau), dynamic_shapes=shapes)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


@contextmanager
def _explained(module: _Deciding) -> Iterator[None]:
    """Turn what PyTorch raises on a model that it cannot export into a sentence."""
    try:
        yield
    except Exception as failed:  # of many types, some of them private
        model = module.classifier.model
        first = next((line.strip() for line in str(failed).splitlines() if line.strip()), "")
        raise PackError(
            f"PyTorch cannot export this {type(model).__name__} ({type(failed).__name__}: "
            f"{first[:300]}); a model that can be packed has no `if` or loop that depends on "
            f"values of its images, and takes any number of images of shape "
            f"{module.classifier.shape}"
        ) from failed


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence remarks of the exporter on its own parts."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _onnx_answer(content: bytes) -> Answer:
    from onnxruntime import InferenceSession, SessionOptions  # noqa: PLC0415 (optional)

    options = SessionOptions()
    options.log_severity_level = 3  # errors; it warns of inputs that may be left out
    session = InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def answer(images: Tensor, tau: float) -> tuple[Tensor, Tensor]:
        given = {"images": images.numpy(), "tau": np.array(tau)}
        label, confidence = session.run(["label", "confidence"], given)
        return torch.from_numpy(label), torch.from_numpy(confidence)

    return answer


def _pt2_answer(content: bytes) -> Answer:
    program = torch.export.load(io.BytesIO(content)).module()

    def answer(images: Tensor, tau: float) -> tuple[Tensor, Tensor]:
        program.get_buffer("tau").fill_(tau)
        label, confidence, _ = program(images)
        return label, confidence

    return answer


def _require_same(clf: Rejecting, answer: Answer) -> None:
    """Raise a PackError unless a packed classifier answers noise as the original does."""
    generator = torch.Generator().manual_seed(0)
    original = _Deciding(clf)
    for count in _TRIED:
        images = torch.rand(count, *clf.shape, generator=generator)
        with torch.no_grad():
            label, confidence, _ = original(images, torch.tensor(0.0))
            packed_label, packed_confidence = answer(images, 0.0)
        close = (packed_confidence - confidence).abs() <= _CLOSE
        differs = ~close | ((packed_label != label) & (confidence > 0.5 + _CLOSE))
        if differs.any():
            raise PackError(
                f"the packed model answers {int(differs.sum())} of {count} images of noise "
                f"otherwise than the classifier (confidence {packed_confidence[differs][0]:.4f} "
                f"instead of {confidence[differs][0]:.4f}), so it was not written: does the model "
                f"draw random numbers, or keep state between calls?"
            )
