"""The shell of the linear classifiers: one linear kernel per feature, indicators for categories.

A method derives from `LinearClassifier` and adds its parameters and ``_solve``, which sees rows in coordinates of a
linear function and labels in {-1, +1}. More than two classes are one against the rest.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from tamis.data.rows import Rows
from tamis.expansion import Coefficients
from tamis.kernels.base import Polynomial
from tamis.kernels.recipes import per_feature
from tamis.models.model import Encoded, Model
from tamis.optim.driver import Solution
from tamis.shells.direct import DirectClassifier
from tamis.shells.learning import Factors
from tamis.shells.parameters import parameters
from tamis.shells.stacked import WIDTH

LINEAR = per_feature(Polynomial(1, 0.0))  # a category is its indicators


@dataclass(frozen=True)
class Coordinates:
    """Encoded rows in the coordinates of a linear function.

    Attributes
    ----------
    P : (n, e) numbers, and an indicator for each level of a category; zero where a cell is missing
    owner : (e,) the column of each
    anchor : (e,) a row that has the largest modulus in it
    """

    P: np.ndarray
    owner: np.ndarray
    anchor: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, nominal: np.ndarray) -> Coordinates:
        parts, owner = [], []
        for c, (column, category) in enumerate(zip(Z.T, nominal, strict=True)):
            block = _indicators(column) if category else np.nan_to_num(column)[:, None]
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
    """One output: coefficients of pairs, how the run went, and what each row (n,) pulls."""

    block: Coefficients
    solution: Solution
    pull: np.ndarray


@parameters
class LinearClassifier(Factors, DirectClassifier):
    """Base of the linear classifiers: one linear kernel per feature, an indicator for categories.

    Parameters
    ----------
    missing : {"absent", "median", None}
        "absent": a missing cell contributes nothing, as the mean would; "median": filled with the training median (the
        most frequent category); None: refused.
    categorical_features : "auto" or list of names, positions or booleans
        "auto" takes text, boolean and categorical columns; name codes that come as numbers. A category is one indicator
        per level.
    tol : float
        Relative duality gap at which the fit stops.
    max_iter : int
        Most steps.

    Attributes
    ----------
    kernel_weights_ : the weight of each kept feature in scaled units; of a category the norm over its levels
    dual_coef_ : the weights that each case carries (see the notes)
    instance_importance_ : signed percentages of these
    kernel_importance_ : signed percentages of the weights
    """

    _: KW_ONLY
    tol: float = 1e-4
    max_iter: int = 1000

    _placed = True

    @abstractmethod
    def _solve(self, points: Coordinates, y: np.ndarray, rows: Rows) -> Found:
        """Solve one problem of two classes."""

    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
        encoded = Encoded.of(
            rows,
            scaling=self.scaling or "centred",  # the free intercept takes the mean: the same problem, fewer lost digits
            missing=self.missing,
            max_features=rows.table.numbers.shape[1],
            candidates="all",
            seed=self._seed,
            engine="streaming",
        )
        Z = encoded.sample.Z
        points = Coordinates.of(Z, encoded.sample.nominal)
        found = [self._solve(points, y[:, 0], rows) for y in rows.problems(shared=False)]
        ground = encoded.ground(LINEAR.bank(encoded.sample, WIDTH))
        model = ground.model([one.block for one in found], [one.solution for one in found])
        row = {position: i for i, position in enumerate(ground.pool.position.tolist())}
        kept = [row[position] for position in model.instances.tolist()]
        dual = np.array([one.pull[kept] for one in found])
        weights = np.array([points.by_column(one.solution.state.w, Z.shape[1])[model.kernels] for one in found])
        return replace(model, dual_coef=dual, kernel_weights=weights)


def _indicators(column: np.ndarray) -> np.ndarray:
    """An indicator (n, levels) for each code that is there."""
    return (column[:, None] == np.unique(column[~np.isnan(column)])).astype(float)


def carried(points: Coordinates, w: np.ndarray, intercept: float) -> Coefficients:
    """Terms ``w_e x_e`` as coefficients of pairs: column e is carried by its anchor."""
    kept = np.flatnonzero(w)
    instances, kernels = np.unique(points.anchor[kept]), np.unique(points.owner[kept])
    coef = np.zeros((1, len(instances), len(kernels)))
    i, k = np.searchsorted(instances, points.anchor[kept]), np.searchsorted(kernels, points.owner[kept])
    np.add.at(coef[0], (i, k), w[kept] / points.P[points.anchor[kept], kept])
    return Coefficients(instances, kernels, coef, np.array([intercept]))
