"""How models are trained: a recipe names a method and a schedule, and the loop carries it out.

A method turns one batch into the loss to descend (`methods`), a schedule sets the learning rate
over time (`schedules`), and a recipe holds both, with all other numbers that the weights depend on
(`recipe`). The loop trains in memory and yields every epoch (`loop`); several processes may share
its batches (`distributed`), and TensorBoard may show its log (`tensorboard`).

    threat, attack = Linf(0.3), PGD(40, 0.05)
    method = ConfidenceCalibrated(threat, attack)
    recipe = Recipe("mine", method, 20, PerEpoch(0.95), Probe(threat, attack))
    generator = torch.Generator().manual_seed(recipe.seed)
    model = create_model("lenet", generator)
    for epoch in epochs(recipe, model, images[:-500], images[-500:], generator):
        print(epoch.number, epoch.entry["loss"])

A method of your own is a frozen dataclass that inherits from `Method` and returns a loss.
"""

from ccat.training.calibrated_beyond import CalibratedBeyond
from ccat.training.calibrated_union import CalibratedUnion, Part
from ccat.training.distributed import ALONE, Ranks
from ccat.training.interval_bound import IntervalBound
from ccat.training.loop import Epoch, State, epochs
from ccat.training.methods import (
    Adversarial,
    ConfidenceCalibrated,
    Direction,
    Forward,
    Imported,
    Method,
    MultiSteepest,
    Normal,
    Trades,
)
from ccat.training.recipe import Probe, Recipe
from ccat.training.registry import METHODS
from ccat.training.schedules import SCHEDULES, Cyclic, Drops, LinearToZero, PerEpoch, Schedule

__all__ = [
    "ALONE",
    "METHODS",
    "SCHEDULES",
    "Adversarial",
    "CalibratedBeyond",
    "CalibratedUnion",
    "ConfidenceCalibrated",
    "Cyclic",
    "Direction",
    "Drops",
    "Epoch",
    "Forward",
    "Imported",
    "IntervalBound",
    "LinearToZero",
    "Method",
    "MultiSteepest",
    "Normal",
    "Part",
    "PerEpoch",
    "Probe",
    "Ranks",
    "Recipe",
    "Schedule",
    "State",
    "Trades",
    "epochs",
]
