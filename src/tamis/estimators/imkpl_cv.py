"""IMKPLClassifierCV: the settings of IMKPL chosen by cross-validation, on kernels that all settings share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import product
from typing import Any

from sklearn.utils.validation import check_is_fitted

from tamis.codec import stored
from tamis.data.checks import check_values
from tamis.data.rows import Rows, by_class
from tamis.estimators.imkpl import HOSSEINI2019, IMKPLClassifier
from tamis.models.selection import HeldOut, Result
from tamis.shells.coded import CodingClassifier
from tamis.shells.parameters import parameters
from tamis.shells.prototypes import Found
from tamis.shells.searching import SearchClassifier


@dataclass(frozen=True)
class Cell:
    """One point of the grid; kernels by name."""

    kernels: str
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
    kernels : as in `IMKPLClassifier`, or for tables a dict {name: choice} to choose among
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
    _single, _cell_type = IMKPLClassifier, Cell
    _handed = ("_seed", "_given")

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
        for point in self._points:
            self._estimator(**point)._check_parameters()

    @property
    def _points(self) -> list[dict[str, Any]]:
        grids = [tuple(dict.fromkeys(getattr(self, name))) for name in GRIDS]
        return [dict(zip(GRIDS.values(), point, strict=True)) for point in product(*grids)]

    def _tried(self, train: Rows, test: Rows) -> dict[Cell, HeldOut]:
        factors = by_class(train.weight / train.mass, train.codes, len(train.classes))
        total = float(train.weight.sum())
        out: dict[Cell, HeldOut] = {}
        for kernels in self._choices:
            cells = [Cell(kernels, **point) for point in self._points]
            ready = self._at(cells[0])._ready(train)
            found: dict[Cell, Found] = {}
            for cell in cells:
                estimator, same = self._at(cell), replace(cell, code_size=None)  # codes of new rows are no part of it
                if same not in found:
                    found[same] = estimator._find(ready)
                model, _ = estimator._model(ready, found[same], factors)
                out[cell] = HeldOut.of_model(model, test, found[same].solution.objective / total)
        return out

    def _size(self, cell: Cell, result: Result) -> Any:
        return result.n_features, cell.prototype_size, -cell.kappa, cell.code_size or cell.prototype_size

    def chosen(self) -> dict[str, Any]:
        check_is_fitted(self)
        own = {
            "prototype size T0": self.prototype_size_,
            "lam, mu, tau": f"{self.lam_:g}, {self.mu_:g}, {self.tau_:g}",
            "kappa": self.kappa_,
            "prototypes in a code": self.code_size_ or self.prototype_size_,
        }
        return own | self._told_choice() | super().chosen()
