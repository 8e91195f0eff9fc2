"""Fits repeated on folds or with other settings, and maps of prototypes: the numbers behind some of the plots."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from tamis.base.estimator import ReadableEstimator, draw_seed
from tamis.base.prototypes import PrototypeClassifier
from tamis.errors import check_choice
from tamis.explain.measures import Stability, stability
from tamis.kernels.global_alignment import check_series, is_series
from tamis.parallel import one_thread
from tamis.progress import tracked
from tamis.table.folds import check_cv, fold_positions
from tamis.table.rows import check_groups, spread
from tamis.table.table import any_table, columns_by_name

__all__ = ["assigned", "classical_map", "embed", "parameter_effects", "squared_distances", "stability_across_folds"]

MAX_CORRELATION_ROWS = 2000  # that measure how features are correlated
MEASURES = ("accuracy", "interpretability")
METHODS = ("tsne", "mds")
MAX_MAP_ROWS = 10_000  # more points than that cover each other
PERPLEXITY = 30.0  # of many points; fewer ones have a third of their number
START_SCALE = 1e-4  # standard deviation of the first coordinates of t-SNE
START_NOISE = 0.05  # of these, as a share


# ---------------------------------------------------------------------- stability of the selection


def stability_across_folds(estimator: ReadableEstimator, X: Any, y: Any, cv: Any = 5, groups: Any = None) -> Stability:
    """Fit the same kind of model to the training rows of each fold, and compare the chosen features.

    Parameters
    ----------
    estimator : one that chooses (a search) must be fitted, its choices are kept; others need not be
    X, y : rows, and what is to be predicted
    cv : int, splitter or sequence of (train, test) positions, default=5
        An integer requests folds that follow the values of rows, stratified for classes.
    groups : labels of shape (n_samples,); rows of one group never stand on both sides of a fold
    """
    check_cv(cv)
    labels = np.asarray(y)
    groups = check_groups(groups, len(labels))
    splits = fold_positions(cv, any_table(X), labels, groups, 0, stratified=is_classifier(estimator))
    return stability_of(fit_folds(estimator, X, labels, [train for train, _ in splits]), X)


def fit_folds(
    estimator: ReadableEstimator, X: Any, y: np.ndarray, parts: Sequence[np.ndarray], n_jobs: int | None = None
) -> list[ReadableEstimator]:
    """Models of the same kind, fitted to some `parts` of the rows; their warnings are suppressed."""
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    fits = parallel(delayed(_fit)(_uncalibrated(estimator), take_rows(X, part), y[part]) for part in parts)
    return list(tracked(fits, "stability of the selection", len(parts)))


def stability_of(models: Sequence[ReadableEstimator], X: Any) -> Stability:
    """Agreement of the features that several models chose from the columns of X."""
    table, _, _ = _uncalibrated(models[0])._read_training(X)
    some = table.take(spread(len(table), MAX_CORRELATION_ROWS))
    supports = [model.features_ for model in models]
    return stability(supports, lambda j: some.labels[j] if j in some.labels else some.numbers[:, j], table.names)


def _fit(model: ReadableEstimator, X: Any, y: np.ndarray) -> ReadableEstimator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def _uncalibrated(estimator: ReadableEstimator) -> ReadableEstimator:
    """An unfitted copy without probabilities, which do not change the features."""
    model = estimator.without_search()
    params = {"calibration": None, "n_jobs": None}
    return model.set_params(**{k: v for k, v in params.items() if k in model.get_params(deep=False)})


# ---------------------------------------------------------------------- effects of parameters


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
    The best value seen here has been chosen on these rows: its accuracy is optimistic. Kernels of series are
    computed anew for each fit, unless ``kernels=alignment(cache=...)`` keeps them.
    """
    _check_grid(clf, grid)
    check_cv(cv)
    rows, labels = check_series(X) if is_series(X) else X, np.asarray(y)
    splits = fold_positions(cv, any_table(rows), labels, None, draw_seed(random_state))
    trials = [(name, value) for name, values in grid.items() for value in values]
    effects: dict[str, dict[str, list[Any]]] = {
        name: {key: [] for key in ("values", *MEASURES, *(f"{m}_spread" for m in MEASURES))} for name in grid
    }
    fits = ((*trial, _measured(_changed(clf, *trial), rows, labels, splits)) for trial in trials)
    for name, value, found in tracked(fits, "effects of parameters", len(trials)):
        effects[name]["values"].append(value)
        for measure in MEASURES:
            each = [measures[measure] for measures in found]
            effects[name][measure].append(float(np.mean(each)))
            effects[name][f"{measure}_spread"].append(float(np.std(each, ddof=1)) if len(each) > 1 else float("nan"))
    return effects


def _check_grid(clf: Any, grid: Mapping[str, Sequence[Any]]) -> None:
    if not hasattr(clf, "prototype_measures"):
        raise ValueError(f"{type(clf).__name__} has no prototype_measures: use a classifier such as IMKPLClassifier")
    known = clf.get_params(deep=False)
    for name, values in grid.items():
        if name not in known:
            raise ValueError(f"grid: {type(clf).__name__} has no parameter {name!r}: use one of {sorted(known)}")
        if isinstance(values, str) or not len(values):
            raise ValueError(f"grid: {name}={values!r} must be a list of one or more values")


def _changed(clf: Any, name: str, value: Any) -> Any:
    """An unfitted copy with another value, and without probabilities, which are not measured."""
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


# ---------------------------------------------------------------------- maps of prototypes


def embed(
    clf: PrototypeClassifier, X: Any, *, method: str = "tsne", random_state: Any = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Places in the plane of rows and of the prototypes of a fitted classifier.

    Parameters
    ----------
    clf : fitted classifier by prototypes
    X : table, or series where the classifier was fitted to series
    method : {"tsne", "mds"}
        "tsne" keeps neighbours together, while distances between groups mean little; it starts from the other one.
        "mds", classical scaling, keeps distances as well as a linear projection of the feature space can.
    random_state : int, RandomState or None
        For small changes of the start of "tsne"; "mds" has nothing random.

    Returns
    -------
    rows : (n, 2)
    prototypes : (c, 2)
    """
    check_choice("method", method, METHODS)
    squared = squared_distances(clf, X)
    places = classical_map(squared)
    if method == "tsne":
        places = _neighbour_map(squared, places, random_state)
    n = len(squared) - len(clf.prototype_labels_)
    return places[:n], places[n:]


def squared_distances(clf: PrototypeClassifier, X: Any) -> np.ndarray:
    """Squared distances (n + c, n + c) between rows and prototypes, the rows first.

    In the feature space of the kernel rows x have norm one, and prototypes u are mixtures of rows:

        row, row              2 - 2 K(x, z)
        row, prototype        1 + u'K u - 2 u'K(samples, x)
        prototype, prototype  u'K u + v'K v - 2 u'K v
    """
    across, gram = clf.prototype_distances(X), clf.model_.expansion.gram
    if len(across) > MAX_MAP_ROWS:
        raise ValueError(f"X has {len(across)} rows, too many for a map: give a sample of at most {MAX_MAP_ROWS}")
    norms = np.diag(gram)
    squared = np.block([[2.0 - 2.0 * clf.kernel_matrix(X), across], [across.T, norms[:, None] + norms - 2.0 * gram]])
    squared = np.maximum(0.5 * (squared + squared.T), 0.0)
    np.fill_diagonal(squared, 0.0)
    return squared


def classical_map(squared: np.ndarray) -> np.ndarray:
    """Places (n, 2) whose distances are as near the given squared ones (n, n) as a projection can bring them.

    The two leading eigenvectors of the centred matrix ``-squared / 2``, each with its largest entry positive.
    """
    n = len(squared)
    means = squared.mean(axis=0)
    inner = -0.5 * (squared - means - means[:, None] + means.mean())
    values, vectors = np.linalg.eigh(inner)
    leading = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    leading *= np.where(leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])] < 0, -1.0, 1.0)
    places = np.zeros((n, 2))
    places[:, : leading.shape[1]] = leading
    return places


def assigned(clf: PrototypeClassifier, X: Any) -> np.ndarray:
    """Shares (rows, c) of the prototypes in each row: its code, scaled to add up to one (nothing where it is empty).

    Where a classifier has no codes, the nearest prototype has a share of one.
    """
    if not hasattr(clf, "encode"):
        distances = clf.prototype_distances(X)
        return (np.argmin(distances, axis=1)[:, None] == np.arange(distances.shape[1])).astype(float)
    codes = clf.encode(X).toarray()
    total = codes.sum(axis=1, keepdims=True)
    return codes / np.where(total > 0, total, 1.0)


def _neighbour_map(squared: np.ndarray, start: np.ndarray, random_state: Any) -> np.ndarray:
    """t-SNE from a given start."""
    from sklearn.manifold import TSNE

    n = len(squared)
    scale = start[:, 0].std()
    noise = check_random_state(random_state).normal(size=start.shape)
    begun = START_SCALE * (start / (scale if scale > 0 else 1.0) + START_NOISE * noise)
    perplexity = min(PERPLEXITY, max(1.0, (n - 1) / 3.0))
    tsne = TSNE(perplexity=perplexity, metric="precomputed", init=begun, learning_rate="auto", random_state=0)
    with one_thread():  # the same sums, and so the same map, on any computer
        return tsne.fit_transform(np.sqrt(squared)).astype(float)


# ---------------------------------------------------------------------- parts of tables


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a table of any kind."""
    by_name = columns_by_name(X)
    if by_name is not None:
        return {
            name: column.take(rows) if hasattr(column, "take") else np.asarray(column)[rows]
            for name, column in by_name.items()
        }
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def take_columns(X: Any, columns: np.ndarray) -> Any:
    """Some columns of a table of any kind, by position."""
    by_name = columns_by_name(X)
    if by_name is not None:
        names = list(by_name)
        return {names[c]: by_name[names[c]] for c in columns}
    if hasattr(X, "iloc"):
        return X.iloc[:, columns]
    if hasattr(X, "columns"):
        return X[[X.columns[c] for c in columns]]
    return np.asarray(X)[:, columns]
