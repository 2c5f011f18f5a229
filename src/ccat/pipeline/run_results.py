"""Results of attacks in a run directory: blocks and, per example, the worst perturbation."""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from ccat.attacking import Attempt, Block, block_of, merge, worst_of_block
from ccat.data import counted
from ccat.runs import Run
from ccat.threats import Condition

Keep = Literal["worst", "none"]


@dataclass(frozen=True)
class RunResults:
    """Results in a run directory: blocks and, per example, the worst perturbation."""

    run: Run
    data: str
    fitted: tuple[str, ...]
    perturbations: Keep = "worst"
    _of: dict[tuple[str, str, int], frozenset[str]] = field(default_factory=dict)

    def missing(self, attempt: Attempt, block: int) -> bool:
        judges = self._judges(attempt)
        if not self.run.attempts.has(attempt, block):
            return True
        if self.fitted and not set(judges) <= self.run.attempts.judges_of(attempt, block):
            return True
        return self.perturbations == "worst" and any(
            attempt.key not in self._kept(attempt.case.condition, judge, block) for judge in judges
        )

    def block(self, attempt: Attempt, block: int) -> Block:
        return self.run.attempts.block(attempt, block)

    def keep(self, attempt: Attempt, number: int, block: Block, delta: Tensor) -> None:
        """Keep perturbations first: after a kill in between, the block is computed again."""
        files, condition = self.run.attempts, attempt.case.condition
        at = (self.run.weights, self.data)
        images = counted(self.run.recipe.dataset)
        _, y = block_of(images.x, images.y, attempt.case.source, number)
        labels = None if condition.on_noise else y[: len(block.value)]
        for judge in self._judges(attempt) if self.perturbations == "worst" else ():
            about = (attempt.key, block, judge, labels, delta)
            mine = worst_of_block(*about, rejects=condition.rejects)
            worst = merge(mine, files.worst(condition, judge, number, *at))
            files.save_worst(condition, judge, number, worst, *at)
            self._of[condition.key, judge, number] = worst.of
        files.save(attempt, number, block)

    def _judges(self, attempt: Attempt) -> tuple[str, ...]:
        return self.run.rejection.judges_of(attempt.case.condition, self.fitted)

    def _kept(self, condition: Condition, judge: str, block: int) -> frozenset[str]:
        """The keys of the attempts whose perturbations are merged into the worst ones."""
        place = (condition.key, judge, block)
        if place not in self._of:
            worst = self.run.attempts.worst(condition, judge, block, self.run.weights, self.data)
            self._of[place] = worst.of if worst else frozenset()
        return self._of[place]
