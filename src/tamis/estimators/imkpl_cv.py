"""IMKPLClassifierCV: the settings of IMKPL chosen by cross-validation, on kernels that all settings share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from itertools import product
from typing import Any

from sklearn.utils.validation import check_is_fitted

from tamis.codec import stored
from tamis.data.checks import check_values
from tamis.data.rows import Rows, by_class
from tamis.estimators.imkpl import HOSSEINI2019, IMKPLClassifier
from tamis.models.model import Model
from tamis.models.selection import HeldOut, Result
from tamis.shells.coded import CodingClassifier
from tamis.shells.parameters import parameters
from tamis.shells.prototypes import Found
from tamis.shells.searching import SearchClassifier


@dataclass(frozen=True)
class Cell:
    """One point of the grid."""

    prototype_size: int
    lam: float
    mu: float
    tau: float
    kappa: float
    code_size: int | None


GRIDS = {
    "prototype_sizes": "prototype_size",
    "lams": "lam",
    "mus": "mu",
    "taus": "tau",
    "kappas": "kappa",
    "code_sizes": "code_size",
}


@stored
@parameters
class IMKPLClassifierCV(CodingClassifier, SearchClassifier):
    """IMKPL with its settings chosen by cross-validation [Hosseini2019].

    In each fold the kernels, their mean and their centred inner products are computed once for all settings; series are
    aligned once for all folds. Scores come from held-out rows of the training data only; the score of the winner is
    the best of many and therefore optimistic: do not report it as performance.

    Parameters
    ----------
    prototype_sizes : sequence of int
    kappas : sequence of float
    taus, lams, mus : sequence of float
    code_sizes : sequence of int or None
        Prototypes in the code of a new row; None is the prototype size. They cost next to nothing to try.

    Attributes
    ----------
    prototype_size_, lam_, mu_, tau_, kappa_, code_size_ : what was chosen

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tamis import IMKPLClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = IMKPLClassifierCV(prototype_sizes=(2, 3), kappas=(0.1,), cv=2).fit(X, y)
    >>> clf.prototype_size_ in (2, 3), bool(clf.score(X, y) > 0.9)
    (True, True)
    """

    citation = HOSSEINI2019
    _single = "IMKPLClassifier"

    prototype_sizes: Sequence[int] = (3, 5, 8)
    kappas: Sequence[float] = (0.1, 0.3)
    taus: Sequence[float] = (0.2,)
    lams: Sequence[float] = (0.2,)
    mus: Sequence[float] = (0.2,)
    _: KW_ONLY
    code_sizes: Sequence[int | None] = (None, 1)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in GRIDS:
            check_values(name, getattr(self, name))
        for cell in self._cells:
            self._estimator(cell)._check_parameters()

    @property
    def _cells(self) -> list[Cell]:
        grids = [tuple(dict.fromkeys(getattr(self, name))) for name in GRIDS]
        return [Cell(**dict(zip(GRIDS.values(), point, strict=True))) for point in product(*grids)]

    def _estimator(self, cell: Cell) -> IMKPLClassifier:
        """The classifier of one cell, without probabilities of its own."""
        own = self.get_params(deep=False)
        shared = {name: own[name] for name in IMKPLClassifier().get_params(deep=False) if name in own}
        return IMKPLClassifier(**shared, **asdict(cell), calibration=None)

    def _at(self, cell: Cell) -> IMKPLClassifier:
        """The same within this fit."""
        estimator = self._estimator(cell)
        estimator._seed, estimator._given = self._seed, self._given
        return estimator

    def _tried(self, train: Rows, test: Rows) -> dict[Cell, HeldOut]:
        cells = self._cells
        ready = self._at(cells[0])._ready(train)
        factors = by_class(train.weight / train.mass, train.codes, len(train.classes))
        found: dict[Cell, Found] = {}
        out: dict[Cell, HeldOut] = {}
        for cell in cells:
            estimator, point = self._at(cell), replace(cell, code_size=None)  # codes of new rows are no part of a fit
            if point not in found:
                found[point] = estimator._find(ready)
            model, _ = estimator._model(ready, found[point], factors)
            out[cell] = HeldOut.of_model(model, test, found[point].solution.objective / float(train.weight.sum()))
        return out

    def _size(self, cell: Cell, result: Result) -> Any:
        return result.n_features, cell.prototype_size, -cell.kappa, cell.code_size or cell.prototype_size

    def _publish_search(self, results: dict[Cell, Result]) -> None:
        for name, value in asdict(self._cell).items():
            setattr(self, f"{name}_", value)

    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
        final = self._at(self._cell)
        model = final._learn(rows)
        names = (
            "_merged_codes",
            "prototype_masses_",
            "code_violation_",
            "normalised_kernels_",
            "n_kernels_",
            "n_items_",
        )
        for name in names:
            if hasattr(final, name):
                setattr(self, name, getattr(final, name))
        return model

    def fixed(self) -> IMKPLClassifier:
        """An unfitted `IMKPLClassifier` with what was chosen."""
        check_is_fitted(self)
        cell = Cell(**{name: getattr(self, f"{name}_") for name in GRIDS.values()})
        return self._estimator(cell).set_params(calibration=3, random_state=self._seed)

    def chosen(self) -> dict[str, Any]:
        check_is_fitted(self)
        own = {
            "prototype size T0": self.prototype_size_,
            "lam, mu, tau": f"{self.lam_:g}, {self.mu_:g}, {self.tau_:g}",
            "kappa": self.kappa_,
            "prototypes in a code": self.code_size_ or self.prototype_size_,
        }
        return own | super().chosen()
