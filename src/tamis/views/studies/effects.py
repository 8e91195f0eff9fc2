"""What single parameters of a prototype classifier do to its accuracy and interpretability on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from tamis.base.fitting import draw_seed
from tamis.kernels.alignment import check_series, is_series
from tamis.progress import tracked
from tamis.table.checks import check_cv
from tamis.table.folds import fold_positions
from tamis.table.table import any_table
from tamis.views.studies.across_folds import take_rows

MEASURES = ("accuracy", "interpretability")


def parameter_effects(
    clf: Any, X: Any, y: Any, grid: Mapping[str, Sequence[Any]], *, cv: Any = 3, random_state: Any = 0
) -> dict[str, dict[str, list[Any]]]:
    """Measure fits with other values of one parameter at a time, the others as they are in `clf`.

    Parameters
    ----------
    clf : classifier with `prototype_measures`; fitted or not, it stays as it is
    X, y : table or series, and classes
    grid : for each parameter the values to try
    cv : int, splitter or sequence of (train, test) positions
        An integer requests stratified folds that follow the values of rows; all values see the same ones.
    random_state : of these folds

    Returns
    -------
    dict with, for each parameter, lists as long as its values: `values`; `accuracy` and `interpretability` in per
    cent, means over the test rows of the folds; `accuracy_spread` and `interpretability_spread`, standard deviations
    over folds

    Notes
    -----
    The best value seen here has been chosen on these rows: its accuracy is a flattering one. Kernels of series are
    computed anew for each fit, unless ``kernels=alignment(cache=...)`` keeps them.
    """
    _check(clf, grid)
    check_cv(cv)
    rows, labels = check_series(X) if is_series(X) else X, np.asarray(y)
    splits = fold_positions(cv, any_table(rows), labels, None, draw_seed(random_state))
    trials = [(name, value) for name, values in grid.items() for value in values]
    effects: dict[str, dict[str, list[Any]]] = {
        name: {key: [] for key in ("values", *MEASURES, *(f"{m}_spread" for m in MEASURES))} for name in grid
    }
    fits = ((*trial, _measured(_fresh(clf, *trial), rows, labels, splits)) for trial in trials)
    for name, value, found in tracked(fits, "effects of parameters", len(trials)):
        effects[name]["values"].append(value)
        for measure in MEASURES:
            each = [measures[measure] for measures in found]
            effects[name][measure].append(float(np.mean(each)))
            effects[name][f"{measure}_spread"].append(float(np.std(each, ddof=1)) if len(each) > 1 else float("nan"))
    return effects


def _check(clf: Any, grid: Mapping[str, Sequence[Any]]) -> None:
    if not hasattr(clf, "prototype_measures"):
        raise ValueError(f"{type(clf).__name__} has no prototype_measures: use a classifier such as IMKPLClassifier")
    known = clf.get_params(deep=False)
    for name, values in grid.items():
        if name not in known:
            raise ValueError(f"grid: {type(clf).__name__} has no parameter {name!r}: use one of {sorted(known)}")
        if isinstance(values, str) or not len(values):
            raise ValueError(f"grid: {name}={values!r} must be a list of one or more values")


def _fresh(clf: Any, name: str, value: Any) -> Any:
    """An unfitted copy with another value, and without probabilities, which play no part here."""
    model = clone(clf)
    if "calibration" in model.get_params(deep=False):
        model.set_params(calibration=None)
    return model.set_params(**{name: value})


def _measured(model: Any, X: Any, y: np.ndarray, splits: list[tuple[np.ndarray, np.ndarray]]) -> list[dict[str, float]]:
    """Measures on the test rows of each fold, of a fit to its training rows."""
    return [
        clone(model).fit(take_rows(X, train), y[train]).prototype_measures(take_rows(X, test), y[test])
        for train, test in splits
    ]
