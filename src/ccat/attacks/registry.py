"""The attacks of ccat by name, as stored configurations and the contract tests know them."""

from ccat import codec
from ccat.attacks.accepted import EveryTarget
from ccat.attacks.apgd import APGD
from ccat.attacks.beam import Beam
from ccat.attacks.border import Border
from ccat.attacks.corner_search import CornerSearch
from ccat.attacks.exchange import Exchange
from ccat.attacks.external import AutoAttack, External, Foolbox, Given
from ccat.attacks.pgd import PGD
from ccat.attacks.protocol import Attack
from ccat.attacks.random_search import Geometry, Random, Simple
from ccat.attacks.refined import Refined
from ccat.attacks.shrinking import Shrinking
from ccat.attacks.square import Square
from ccat.attacks.windows import Windows

ATTACKS: dict[str, type[Attack]] = {
    "PGD": PGD,
    "APGD": APGD,
    "Random": Random,
    "Simple": Simple,
    "Geometry": Geometry,
    "Square": Square,
    "CornerSearch": CornerSearch,
    "Refined": Refined,
    "Shrinking": Shrinking,
    "Beam": Beam,
    "Exchange": Exchange,
    "Border": Border,
    "Windows": Windows,
}

codec.register(
    Attack,
    {
        **ATTACKS,
        "External": External,
        "AutoAttack": AutoAttack,
        "Foolbox": Foolbox,
        "Given": Given,
        "EveryTarget": EveryTarget,
    },
)
