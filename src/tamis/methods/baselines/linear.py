"""LinearClassifier: one linear kernel per feature, indicators for categories.

A method derives from `LinearClassifier` and adds its parameters and ``_solve``, which sees rows in coordinates of a
linear function and labels in {-1, +1}. More than two classes are one against the rest.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.base.classifier import ReadableClassifier
from tamis.base.kernel_model import Coefficients, KernelModel
from tamis.base.kernel_space import UNIT_WIDTH, KernelSpace
from tamis.base.model import FitContext
from tamis.kernels.base import Polynomial
from tamis.kernels.recipes import per_feature
from tamis.optim.driver import Solution
from tamis.table.rows import Rows

LINEAR = per_feature(Polynomial(1, 0.0))  # a category is its indicators


@dataclass(frozen=True)
class Coordinates:
    """Encoded rows in the coordinates of a linear function."""

    P: np.ndarray  # (n, e) numbers, and an indicator for each level of a category; zero where a cell is missing
    owner: np.ndarray  # (e,) the column of each
    anchor: np.ndarray  # (e,) a row that has the largest modulus in it

    @classmethod
    def of(cls, Z: np.ndarray, nominal: np.ndarray) -> Coordinates:
        parts, owner = [], []
        for c, (column, category) in enumerate(zip(Z.T, nominal, strict=True)):
            block = np.nan_to_num(column)[:, None]
            if category:  # an indicator for each code
                block = (column[:, None] == np.unique(column[~np.isnan(column)])).astype(float)
            parts.append(block)
            owner += [c] * block.shape[1]
        P = np.hstack(parts)
        return cls(P, np.array(owner, dtype=int), np.argmax(np.abs(P), axis=0))

    def by_column(self, w: np.ndarray, n_columns: int) -> np.ndarray:
        """The weight of each column (n_columns,); of a category the norm over its levels."""
        counts = np.bincount(self.owner, minlength=n_columns)
        norms = np.sqrt(np.bincount(self.owner, weights=w * w, minlength=n_columns))
        return np.where(counts == 1, np.bincount(self.owner, weights=w, minlength=n_columns), norms)


@dataclass(frozen=True)
class Found:
    """One output: coefficients of pairs, how the run went, and the pull of each row (n,)."""

    block: Coefficients
    solution: Solution
    pull: np.ndarray


class LinearClassifier(ReadableClassifier):
    """Base of the linear classifiers: one linear kernel per feature, an indicator for categories."""

    _has_margin = True

    tol: float  # parameters, set by the constructors
    max_iter: int

    @abstractmethod
    def _solve(self, points: Coordinates, y: np.ndarray, rows: Rows) -> Found:
        """Solve one problem of two classes."""

    def _learn(self, rows: Rows, context: FitContext) -> tuple[KernelModel, Mapping[str, Any]]:
        # the free intercept takes the mean of a column: the same problem without scaling, with fewer digits lost
        space = KernelSpace(LINEAR, "streaming", self.scaling or "centred", self.missing)
        encoded = space.encode(rows, context.seed)
        Z = encoded.sample.Z
        points = Coordinates.of(Z, encoded.sample.nominal)
        found = [self._solve(points, y[:, 0], rows) for y in rows.problems(shared=False)]
        builder = encoded.builder(LINEAR.bank(encoded.sample, UNIT_WIDTH))
        model = builder.model([one.block for one in found], [one.solution for one in found])
        row = {position: i for i, position in enumerate(builder.pool.position.tolist())}
        kept = [row[position] for position in model.instances.tolist()]
        dual = np.array([one.pull[kept] for one in found])
        weights = np.array([points.by_column(one.solution.state.w, Z.shape[1])[model.kernels] for one in found])
        return replace(model, dual_coef=dual, kernel_weights=weights), {}


def carried(points: Coordinates, solution: Solution) -> Found:
    """A linear function ``x'w + intercept`` as coefficients of pairs: the term ``w_e x_e`` is carried by its anchor."""
    w = solution.state.w
    kept = np.flatnonzero(w)
    instances, kernels = np.unique(points.anchor[kept]), np.unique(points.owner[kept])
    coef = np.zeros((1, len(instances), len(kernels)))
    i, k = np.searchsorted(instances, points.anchor[kept]), np.searchsorted(kernels, points.owner[kept])
    np.add.at(coef[0], (i, k), w[kept] / points.P[points.anchor[kept], kept])
    block = Coefficients(instances, kernels, coef, np.array([solution.state.intercept]))
    return Found(block, solution, np.bincount(points.anchor, weights=w, minlength=len(points.P)))
