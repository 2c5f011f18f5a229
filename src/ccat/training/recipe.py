"""A recipe: everything that the weights of a trained model depend on, as one frozen value.

It is stored beside the weights, and any field can be set by its dotted name: `method.rho=6`.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from ccat import codec
from ccat.attacks import Attack
from ccat.checks import require_count, require_number
from ccat.data import UNVERIFIED, Augmentation, require_dataset
from ccat.models import MODELS, is_model_name
from ccat.objectives import Objective, other_class_confidence
from ccat.threats import Threat
from ccat.training.methods import Method
from ccat.training.schedules import Schedule

Optimiser = Literal["sgd", "adam"]


@dataclass(frozen=True)
class Probe:
    """A short attack on the monitored images after every epoch: it shows robust overfitting.

    Attributes:
        threat: What the attack may do.
        attack: What looks for errors on the monitored images.
        objective: What the attack maximises.
    """

    threat: Threat
    attack: Attack
    objective: Objective = other_class_confidence


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: SGD with momentum, or Adam, on shuffled batches.

    The model is that of the last epoch; no epoch is chosen by what the probe finds.

    Attributes:
        name: What the recipe is called on the command line.
        method: Turns a batch into the loss to descend.
        epochs: Passes over the training images.
        schedule: The learning rate over time, as a factor of `rate`.
        probe: The attack on the monitored images after every epoch.
        dataset: A data set of the catalogue, or a directory of your own images.
        model: A network of `MODELS`, or `package.module:factory` of your own.
        images: Use only the first so many images of the training split; None uses all.
        monitor: Of these images, the last so many are not trained on but watched by the probe; a
            fifth of them if that would be more than half.
        batch: Images per step, over all processes; all of them if there are fewer.
        rate: The learning rate that the schedule starts from.
        momentum: The momentum of SGD; of Adam, the decay of its mean of gradients.
        decay: The weight decay, which adds to the gradient.
        augmentation: Random changes of each training image; None changes nothing.
        seed: Decides the first weights, the order of the images and every random draw.
        optimiser: "sgd", as in the paper, or "adam" (Kingma & Ba 2015).
        average: The decay of the running average of the weights, which the model then has: 0.999
            averages over about a thousand steps; 0 averages nothing.

    """

    name: str
    method: Method
    epochs: int
    schedule: Schedule
    probe: Probe
    dataset: str = "mnist"
    model: str = "lenet"
    images: int | None = None
    monitor: int = 500
    batch: int = 100
    rate: float = 0.1
    momentum: float = 0.9
    decay: float = 0.0
    augmentation: Augmentation | None = None
    seed: int = 0
    optimiser: Optimiser = "sgd"
    average: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method | codec.Unresolved):
            raise ValueError(
                f"Recipe: method must be an instance of a class that inherits from "
                f"ccat.Method, not {self.method!r}"
            )
        for name in ("epochs", "monitor", "batch"):
            require_count(f"Recipe: {name}", getattr(self, name))
        if self.images is not None:
            require_count("Recipe: images", self.images)
        require_number("Recipe: rate", self.rate, 0)
        require_number("Recipe: momentum", self.momentum, 0, 1, low_too=True)
        require_number("Recipe: decay", self.decay, 0, 1, low_too=True)
        require_number("Recipe: average", self.average, 0, 1, low_too=True)
        if self.optimiser not in get_args(Optimiser):
            raise ValueError(f"Recipe: optimiser must be sgd or adam, not {self.optimiser!r}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"Recipe: seed must be at least 0 and below 2**63, not {self.seed}")
        if not self.dataset.startswith(UNVERIFIED):
            require_dataset(self.dataset)
        if not is_model_name(self.model):
            raise ValueError(
                f"Recipe: there is no model {self.model!r}; choose one of {', '.join(MODELS)}, or "
                f"name your own as package.module:factory"
            )
