"""KernelSpace: how the kernels between training rows are evaluated, and what that takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tamis.base.memory import MemoryEstimate, Size, kept_values, square_memory
from tamis.base.model import LANDMARKS, Encoded, PreparedRows, draw_landmarks
from tamis.kernels.recipes import Recipe
from tamis.table.rows import Rows

UNIT_WIDTH = 1.0  # of recipes that bring no bandwidth


@dataclass(frozen=True)
class KernelSpace:
    """The form that kernels between rows take.

    Attributes
    ----------
    recipe : the kernels where none are given
    form : of the stack, see `KernelBank.stack`
    scaling, missing : how columns are encoded
    bandwidth : of recipes
    max_features : a budget for recipes that look at it; None for all columns
    candidates : how many rows may become instances
    device : where all kernel values are held; None: numpy
    landmarks : rows that kernels go through; None, or at least as many as there are rows: the kernels themselves
    complete : whether a row with a missing cell among the columns of a kernel lacks that kernel
    """

    recipe: Recipe
    form: str
    scaling: str | None
    missing: str | None
    bandwidth: Any = UNIT_WIDTH
    max_features: int | None = None
    candidates: int | str | None = "all"
    device: str | None = None
    landmarks: int | None = None
    complete: bool = False

    def encode(self, rows: Rows, seed: int) -> Encoded:
        """Merged rows as numbers, with those that may become instances."""
        encoded = Encoded.of(
            rows,
            scaling=self.scaling,
            missing=self.missing,
            max_features=rows.table.numbers.shape[1] if self.max_features is None else self.max_features,
            candidates=self.candidates,
            seed=seed,
            engine=self.form,
        )
        if not self._uses_landmarks(len(rows)):
            return encoded
        assert self.landmarks is not None
        return replace(encoded, candidates=draw_landmarks(rows, self.landmarks, seed), engine=LANDMARKS)

    def prepare(self, rows: Rows, kernels: Any, seed: int) -> PreparedRows:
        """Kernels on merged rows."""
        encoded = self.encode(rows, seed)
        return encoded.prepare(kernels, self.recipe, self.bandwidth, whole=self.complete, device=self.device)

    def _uses_landmarks(self, n_rows: int) -> bool:
        return self.landmarks is not None and self.landmarks < n_rows

    def memory(self, size: Size, squares: float, copies: float, kept: float | None = None) -> MemoryEstimate:
        """Bytes of kernels and matrices.

        Parameters
        ----------
        squares : matrices between all rows that the solver holds at its peak
        copies : of the factors that it holds, where there are landmarks
        kept : bytes of kernel values that are held in numpy; None: what the form keeps
        """
        if not self._uses_landmarks(size.rows):
            held = kept_values(size, self.form) if kept is None else kept
            return square_memory(size, held, squares, self.device)
        assert self.landmarks is not None
        rank = size.factors(self.landmarks)
        return {
            "factors of the kernels": copies * 8 * size.rows * rank,
            "matrices between factors": 16 * min(size.rows, rank) ** 2 + 16 * size.kernels * self.landmarks**2,
        }
