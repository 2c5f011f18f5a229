"""Names and numbers that options mention, written out because their rooms import torch.

A test compares each of them with the table or number that it repeats (tests/test_startup.py).
"""

BOUNDS = ("interval", "linear")  # ccat.bounds.Bounds
COMPILE = ("auto", "on", "off")  # ccat.attacking.copies.Compile
DETECTORS = ("mahalanobis", "lid", "consistency")  # ccat.rejection.DETECTORS and CONSISTENCY
FAMILIES = ("mnist-c", "cifar10-c")  # ccat.data.corruptions.FAMILIES
FORMATS = ("md", "csv", "tex")  # ccat.report.FORMATS
GRADIENTS = ("float32", "bfloat16")  # ccat.attacking.copies.Gradients
MODELS = (  # ccat.models.MODELS
    *("lenet", "wide-lenet", "steep-lenet", "resnet20", "trades-cnn", "msd-lenet"),
    *("preact-resnet18", "resnet34", "resnet50", "wrn-28-10", "wrn-34-10"),
)
PLANTED = 100  # ccat.pipeline.check.EXAMPLES
REST_TPR = 0.9  # ccat.attacking.rest.TPR
