"""What an evaluation gives: plain numbers, from which reports are made."""

from dataclasses import dataclass


@dataclass(frozen=True)
class UnderAttack:
    """What all attempts within one threat did. `error` is RErr(τ) on test images; on noise it is the FPR, the share accepted."""

    threat: str
    source: str
    seen: bool
    attempts: int
    examples: int
    error: float
    error_without_rejection: float


@dataclass(frozen=True)
class Evaluation:
    """One run at one threshold. Err, TPR and coverage are over the test images that did not choose τ."""

    run: str
    dataset: str
    tau: float
    tpr: float
    coverage: float
    error: float
    error_without_rejection: float
    attacks: tuple[UnderAttack, ...]
    notes: tuple[str, ...]
