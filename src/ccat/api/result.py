"""What an evaluation in memory measured: shown, stored, compared, and made into a report."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from ccat.errors import PipelineError
from ccat.evaluation.compare import Compared
from ccat.evaluation.compare import compare as compare_outcomes
from ccat.evaluation.evaluate import evaluate as evaluate_outcomes
from ccat.evaluation.results import Evaluation, RunOutcomes
from ccat.files import write_whole
from ccat.report import FORMATS, comparison_table, tables, to_json
from ccat.report.section import Section
from ccat.report.table import Share, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Result:
    """What an evaluation measured.

    `adversarial` holds, by threat, the worst case of every attacked image: the image itself where
    no attack succeeded. Under "reject Linf:0.3" it is what the classifier is least sure of.
    """

    outcomes: RunOutcomes
    evaluation: Evaluation
    adversarial: Mapping[str, Tensor]

    def at(self, tpr: float = 0.99, tau: float | None = None) -> "Result":
        """Return the same at another threshold; nothing is attacked again."""
        evaluation = evaluate_outcomes(self.outcomes, tpr, tau)
        return Result(self.outcomes, evaluation, self.adversarial)

    def table(
        self,
        name: str = "main",
        format: str = "md",  # noqa: A002 (as pandas has it)
        columns: Sequence[str] | None = None,
    ) -> str:
        """Return a table as text.

        Args:
            name: main (Err, coverage, RErr of every threat, with 95 % intervals), classes,
                thresholds, unseen, coverage, attacks, strongest, confusion, certificates,
                availability, or stratified.
            format: md (Markdown), csv (with all digits) or tex (LaTeX with booktabs).
            columns: Only these, by their titles or patterns such as Linf*; None shows all.
        """
        table = self._table(name)
        text = _formatted(table if columns is None else table.select(columns), format)
        return "\n".join([text.rstrip("\n"), *self.outcomes.notes]) if format == "md" else text

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain data, of the schema that `ccat schema` prints."""
        return to_json([self.evaluation])

    def to_pandas(self, name: str = "main") -> Any:
        """Return a table as a pandas DataFrame: shares between 0 and 1, with their intervals.

        Raises:
            ImportError: If pandas is not installed: pip install 'ccat-torch[pandas]'.
        """
        import pandas  # type: ignore[import-untyped]  # noqa: PLC0415 (not a dependency)

        table = self._table(name)
        rows = [
            {
                key: value
                for title, cell in zip(table.head, row, strict=True)
                for key, value in _values(title, cell)
            }
            for row in table.rows
        ]
        return pandas.DataFrame(rows)

    def plot(self, name: str = "robust-error") -> "Figure":
        """Return a figure: robust-error, risk-coverage, confidences or roc.

        Raises:
            ValueError: If there is no such figure.
        """
        from ccat.report.figures import figures  # noqa: PLC0415 (matplotlib takes a second)

        drawn = figures([self.outcomes], [self.evaluation])
        if name not in drawn:
            raise ValueError(f"there is no figure {name!r}; there are {', '.join(drawn)}")
        return drawn[name]

    def save(self, out: str | os.PathLike[str]) -> Path:
        """Write everything to a folder, and return it.

        It holds result.json, every table (md, csv, tex) and adversarial.npz, which has the
        adversarial images by threat.
        """
        folder = Path(out)
        (folder / "tables").mkdir(parents=True, exist_ok=True)
        for table in tables([[self.evaluation]]):
            for ending, text_of in FORMATS.items():
                write_whole(folder / "tables" / f"{table.name}.{ending}", text_of(table).encode())
        arrays = {name: images.cpu().numpy() for name, images in self.adversarial.items()}
        np.savez_compressed(folder / "adversarial.npz", **arrays)  # type: ignore[arg-type]
        content = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        write_whole(folder / "result.json", content.encode())
        return folder

    def __str__(self) -> str:
        return self.table()

    def _table(self, name: str) -> Table:
        found = {table.name: table for table in tables([[self.evaluation]])}
        if name not in found:
            raise ValueError(f"there is no table {name!r}; there are {', '.join(found)}")
        return found[name]


@dataclass(frozen=True, eq=False)
class Comparison:
    """How two results differ on the same images: `compared` has a difference for each rate."""

    first: str
    second: str
    tpr: float
    compared: tuple[Compared, ...]

    def table(self, format: str = "md") -> str:  # noqa: A002 (as pandas has it)
        """Return the differences with their intervals as text: md, csv or tex."""
        table = comparison_table(self.first, self.second, self.tpr, self.compared)
        return _formatted(table, format)

    def __str__(self) -> str:
        return self.table()


def compare(first: Result, second: Result, tpr: float = 0.99) -> Comparison:
    """Compare two results on the same images, each at its own threshold for a TPR.

    Raises:
        PipelineError: If they are of different images, or no threat attacked both.
    """
    one, other = first.outcomes, second.outcomes
    compared = tuple(compare_outcomes(one, other, tpr))
    if len(compared) == 1:
        raise PipelineError(f"{one.run} and {other.run} were not attacked with a common threat")
    return Comparison(one.run, other.run, tpr, compared)


def write_report(results: Sequence[Result], out: str | os.PathLike[str]) -> Path:
    """Write a page to look at, tables and figures for a paper, and return where the page lies.

    Raises:
        PipelineError: If there is no result, two have one name, or one was not attacked.
    """
    # Imported here because matplotlib takes a second.
    from ccat.report.save import save_report  # noqa: PLC0415

    names = [one.outcomes.run for one in results]
    if not names or len(set(names)) < len(names):
        raise PipelineError("a report needs results with names of their own: evaluate(name=…)")
    for one in results:
        if not one.outcomes.groups:
            raise PipelineError(f"{one.outcomes.run} was not attacked: there is nothing to report")
    sections = [
        Section(
            one.outcomes, one.evaluation, {group.condition: [] for group in one.outcomes.groups}
        )
        for one in results
    ]
    made = tables([[one.evaluation] for one in results])
    return save_report(Path(out), sections, made, {}, date.today())


def _formatted(table: Table, form: str) -> str:
    if form not in FORMATS:
        raise ValueError(f"there is no format {form!r}; there are {', '.join(FORMATS)}")
    return FORMATS[form](table)


def _values(title: str, cell: Any) -> list[tuple[str, Any]]:
    """Return the columns of a data frame that a cell becomes."""
    if not isinstance(cell, Share):
        return [(title, cell if isinstance(cell, str) else cell.value)]
    low, high = cell.interval or (None, None)
    bound = [(f"{title} at most", cell.upper)] if cell.upper is not None else []
    return [(title, cell.value), (f"{title} low", low), (f"{title} high", high), *bound]
